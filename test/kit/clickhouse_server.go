package kit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ServeClickHouse runs a ClickHouse server with users and rights in this process until it is killed, ten minutes at
// most. It is libchdb with its HTTP server, which the embedded engine does not use: that one has a single user. users
// has for each name what GRANT takes before TO. The user admin may do everything. No user has a password. The table
// system.query_log says which rights each statement used.
func ServeClickHouse(library, dir string, port int, users map[string][]string) error {
	config, accounts := filepath.Join(dir, "config.xml"), filepath.Join(dir, "users.xml")
	err := errors.Join(os.WriteFile(config, fmt.Appendf(nil, `<clickhouse>
  <http_port>%d</http_port><listen_host>127.0.0.1</listen_host>
  <user_directories><users_xml><path>%s</path></users_xml></user_directories>
  <access_control_improvements>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
  </access_control_improvements>
  <query_log><database>system</database><table>query_log</table></query_log>
</clickhouse>`, port, accounts), 0o600), os.WriteFile(accounts, []byte(usersFile(users)), 0o600))
	if err != nil {
		return err
	}
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	var setSignalHandlers func(enabled int32)
	var run func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	purego.RegisterLibFunc(&setSignalHandlers, handle, "chdb_set_signal_handlers_enabled")
	purego.RegisterLibFunc(&run, handle, "chdb_query_cmdline")
	setSignalHandlers(0) // otherwise it replaces those of the Go runtime
	// The server listens as long as the second statement runs.
	args := []string{"clickhouse", "--path=" + filepath.Join(dir, "db"), "--config-file=" + config, "--query",
		"SYSTEM START LISTEN HTTP; SELECT count(sleepEachRow(1)) FROM numbers(600) SETTINGS max_block_size = 1"}
	var pin runtime.Pinner
	defer pin.Unpin()
	argv := make([]*byte, len(args)+1)
	for i, arg := range args {
		text := append([]byte(arg), 0)
		pin.Pin(&text[0])
		argv[i] = &text[0]
	}
	pin.Pin(&argv[0])
	run(int32(len(args)), unsafe.Pointer(&argv[0]))
	return errors.New("the ClickHouse server has ended")
}

// usersFile returns ClickHouse's users file.
func usersFile(users map[string][]string) string {
	var b strings.Builder
	b.WriteString("<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users>\n")
	add := func(name, rights string) {
		fmt.Fprintf(&b, "<%s><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile>"+
			"<quota>default</quota>%s</%s>\n", name, rights, name)
	}
	add("default", "")
	add("admin", "")
	for name, rights := range users {
		text := "<grants>"
		for _, right := range rights {
			text += "<query>GRANT " + right + "</query>"
		}
		add(name, text+"</grants>")
	}
	b.WriteString("</users></clickhouse>\n")
	return b.String()
}
