package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/features/doctor"
	"github.com/eventrelay/relay/store/schema"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// clickhouseServer as the first argument makes this binary a ClickHouse server: clickhouse-server LIBRARY DIRECTORY
// PORT DATABASE. Its users have the names of schema.Roles and the rights of these in the database.
const clickhouseServer = "clickhouse-server"

func serveClickHouse(args []string) error {
	var port int
	if _, err := fmt.Sscan(args[2], &port); err != nil {
		return err
	}
	users := map[string][]string{}
	for _, role := range schema.Roles() {
		users[role] = schema.Rights(role, args[3], false)
	}
	return kit.ServeClickHouse(args[0], args[1], port, users)
}

// rightsServer is a ClickHouse server with a user for each role.
type rightsServer struct {
	t    *testing.T
	addr string
	db   string
}

func startRightsServer(t *testing.T) *rightsServer {
	t.Helper()
	s := &rightsServer{t: t, addr: fmt.Sprintf("127.0.0.1:%d", kit.FreePort(t)), db: unusedName("rights")}
	_, port, _ := strings.Cut(s.addr, ":")
	cmd := exec.Command(newProcess(t, "", nil).binary, clickhouseServer, kit.ChdbLibrary(t), t.TempDir(), port, s.db)
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("ClickHouse: %s", &out)
		}
	})
	eventually(t, time.Minute, func() string {
		if _, status := s.ask("admin", "SELECT 1"); status != http.StatusOK {
			return "ClickHouse does not answer"
		}
		return ""
	})
	return s
}

// url returns the address of the database for a user.
func (s *rightsServer) url(user string) string { return "http://" + user + "@" + s.addr + "/" + s.db }

// ask runs a statement as a user.
func (s *rightsServer) ask(user, statement string) (answer string, status int) {
	res, err := http.Post("http://"+s.addr+"/?user="+user, "", strings.NewReader(statement))
	if err != nil {
		return err.Error(), 0
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error(), 0
	}
	return string(text), res.StatusCode
}

// The rights of each role are enough on a ClickHouse server, each of those of a node is used, and no role may do more.
func TestDocumentedClickHouseRightsAreEnoughAndMinimal(t *testing.T) {
	t.Parallel()
	server := startRightsServer(t)
	c := newCluster(t, engines{sharedEngine(t, "kafka"), sharedEngine(t, "redis"), "127.0.0.1:1"}, server.db,
		"RELAY_CLICKHOUSE_URL="+server.url(schema.RoleWrite), "RELAY_READ_URL="+server.url(schema.RoleRead),
		"RELAY_SEARCH_URL="+server.url(schema.RoleSearch))
	c.migrate("--clickhouse-url", server.url(schema.RoleMigrate), "--search-index")
	c.migrate("--clickhouse-url", server.url(schema.RoleMigrate), "--retention-days", "40")
	n := c.node("a")
	n.start()
	dest := newSink(t, nil)
	ep, _, _ := n.endpoint(map[string]any{"destinations": []any{dest.URL}})
	event := n.send(ep, 1)
	n.awaitStatus(event, "delivered", arrival)
	n.must(http.StatusOK, "GET", "/v1/events?q=nothing", nil)
	n.must(http.StatusOK, "DELETE", "/v1/events/"+event+"/payload", nil)
	eventually(t, time.Minute, func() string {
		if answer, _ := server.ask("admin", "SELECT count() FROM "+server.db+".events WHERE body = ''"); answer != "1\n" {
			return "the payload is not erased in " + answer
		}
		return ""
	})
	server.dropDay()
	if checks, _ := n.runDoctor(); checks["clickhouse"].State != doctor.StateOK {
		t.Errorf("%+v", checks["clickhouse"])
	}
	server.checkUsed()

	n.kill()
	checks, _ := n.runDoctor("--clickhouse-url", server.url(schema.RoleRead))
	found := checks["clickhouse"]
	if found.State != doctor.StateFail || !strings.Contains(strings.Join(found.Details, "; "), "RELAY_CLICKHOUSE_URL") ||
		!strings.Contains(strings.Join(found.Details, "; "), "INSERT") {
		t.Errorf("a writer that may not write: %+v", found)
	}
	for user, statements := range map[string][]string{
		schema.RoleRead:   {"INSERT INTO %s.shard VALUES (1, 1, now())", "DROP TABLE %s.events", "TRUNCATE TABLE %s.events"},
		schema.RoleSearch: {"INSERT INTO %s.shard VALUES (1, 1, now())", "SELECT count() FROM system.parts"},
		schema.RoleWrite: {"DROP TABLE %s.events", "CREATE TABLE %s.x (a Int8) ENGINE = Memory",
			"ALTER TABLE %s.events ADD COLUMN x Int8", "DROP DATABASE %s"},
		schema.RoleMigrate: {"CREATE DATABASE other", "CREATE USER x"},
	} {
		for _, statement := range statements {
			statement = strings.ReplaceAll(statement, "%s", server.db)
			if answer, _ := server.ask(user, statement); !strings.Contains(answer, "Not enough privileges") {
				t.Errorf("%s may run %s: %s", user, statement, answer)
			}
		}
	}
}

// dropDay drops the day of the events, as a node does when their retention has ended.
func (s *rightsServer) dropDay() {
	s.t.Helper()
	opts := must.Get(clickhouse.ParseDSN(s.url(schema.RoleWrite)))(s.t)
	conn := must.Get(clickhouse.Open(opts))(s.t)
	defer conn.Close()
	n, err := schema.DropExpired(s.t.Context(), conn, "", "attempts", time.Now().AddDate(0, 0, 2))
	if err != nil || n == 0 {
		s.t.Errorf("%d days were dropped: %v", n, err)
	}
}

// checkUsed checks in the query log that no statement lacked a right, and that each right of a node was used.
func (s *rightsServer) checkUsed() {
	s.t.Helper()
	lines := func(statement string) []string {
		s.t.Helper()
		answer, status := s.ask("admin", statement)
		must.Equal(s.t, status, http.StatusOK, "%s: %s", statement, answer)
		return strings.FieldsFunc(answer, func(r rune) bool { return r == '\n' })
	}
	lines("SYSTEM FLUSH LOGS")
	for _, refused := range lines("SELECT DISTINCT user, exception, query FROM system.query_log " +
		"WHERE exception_code = 497 AND user != 'admin'") {
		s.t.Errorf("refused: %s", refused)
	}
	for _, role := range []string{schema.RoleWrite, schema.RoleRead, schema.RoleSearch} {
		used := lines("SELECT DISTINCT arrayJoin(used_privileges) FROM system.query_log WHERE user = '" + role + "'")
		for _, right := range schema.Rights(role, s.db, false) {
			operations, object, _ := strings.Cut(right, " ON ")
			for operation := range strings.SplitSeq(operations, ", ") {
				if !slices.ContainsFunc(used, func(u string) bool {
					return strings.HasPrefix(u, operation) && strings.Contains(u, " ON "+strings.TrimSuffix(object, "*"))
				}) {
					s.t.Errorf("%s: %s on %s is not used: %v", role, operation, object, used)
				}
			}
		}
	}
}
