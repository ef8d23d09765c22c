package clickhouse

import (
	"encoding/xml"
	"strings"
)

// grants are the privileges of every statement. The engine refuses everything else: the sources FILE, URL, REMOTE, S3,
// MYSQL and so on with the table functions and table engines that need them, users and roles, functions, dictionaries,
// named collections, shutdown. BACKUP is added if the operator has configured a path.
const grants = "SHOW, SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, CREATE TEMPORARY TABLE, " +
	"DROP, TRUNCATE, OPTIMIZE, CHECK, KILL QUERY, SYSTEM MERGES, SYSTEM TTL MERGES, SYSTEM MOVES, " +
	"SYSTEM DROP CACHE, SYSTEM FLUSH LOGS"

// constSettings are settings that no statement and no request may change: each names a file, an address, a function or
// SQL text, or selects an analyzer that does not check the others. The engine enforces this only for the outermost
// SETTINGS and lets DEFAULT reset any setting, so no statement may contain these names either, see forbiddenWords.
var constSettings = []string{
	"format_schema", "format_schema_source", "format_template_resultset", "format_template_row", "output_format_schema",
	"format_avro_schema_registry_url", "url_base", "additional_result_filter", "additional_table_filters",
	"parallel_replicas_custom_key", "schema_inference_hints", "dialect", "merge_tree_disk", "merge_tree_table_disk",
	"merge_tree_storage_policy", "input_format_values_interpret_expressions",
	"input_format_values_deduce_templates_of_expressions", "input_format_record_errors_file_path", "polyglot_dialect",
	"rename_files_after_processing", "implicit_table_at_top_level", "ai_function_embedding_default_credentials",
	"ai_function_text_default_credentials", "compatibility", "count_distinct_implementation", "enable_analyzer",
	"allow_experimental_analyzer",
}

// userSettings returns ClickHouse's users file, with the one user of all sessions.
func userSettings(cfg Config) string {
	var b strings.Builder
	b.WriteString("<clickhouse>\n  <profiles><default>\n")
	// Otherwise rows of an insert in the format Values would be evaluated as expressions, which nothing has checked.
	b.WriteString("    <input_format_values_interpret_expressions>0</input_format_values_interpret_expressions>\n")
	b.WriteString("    <input_format_values_deduce_templates_of_expressions>0</" +
		"input_format_values_deduce_templates_of_expressions>\n")
	b.WriteString("    <constraints>\n")
	for _, name := range constSettings {
		b.WriteString("      <" + name + "><const/></" + name + ">\n")
	}
	b.WriteString("    </constraints>\n  </default></profiles>\n  <quotas><default/></quotas>\n")
	b.WriteString("  <users><default>\n    <password/>\n    <networks><ip>::/0</ip></networks>\n")
	b.WriteString("    <profile>default</profile>\n    <quota>default</quota>\n    <grants>\n")
	all := grants
	if cfg.Backups != "" {
		all += ", BACKUP"
	}
	b.WriteString("      <query>GRANT " + all + " ON *.*</query>\n")
	for _, name := range tableEngines {
		b.WriteString("      <query>GRANT TABLE ENGINE ON " + name + "</query>\n")
	}
	b.WriteString("    </grants>\n  </default></users>\n</clickhouse>\n")
	return b.String()
}

// xmlText escapes a string as the content of an XML element.
func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder returns no errors
	return b.String()
}
