package mysql

import (
	_ "embed" // for the schema
	"strings"

	"github.com/holdfast-go/holdfast/sqlstore/routines"
)

// format is the version of the tables and procedures that this program knows.
const format = 3

//go:embed schema.sql
var schema string

//go:embed grants.sql
var grants string

// Schema returns the SQL that creates the tables and procedures, or migrates them from an earlier format, for the mysql
// and mariadb clients.
func Schema() string { return schema }

// Grants returns the SQL that grants a user named app the least privileges that it needs, once the tables exist.
func Grants() string { return grants }

// statementsOf splits a script for those clients into its statements.
func statementsOf(script string) (statements []string) {
	_, script, _ = strings.Cut(script, "\nDELIMITER //\n")
	script, _, _ = strings.Cut(script, "\nDELIMITER ;\n")
	for statement := range strings.SplitSeq(script, " //") {
		if statement = strings.TrimSpace(statement); statement != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// clock is an SQL expression for the server's time in microseconds.
const clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// place describes a claim in JSON.
const place = `CAST(JSON_OBJECT('ticket', ticket, 'id', CONVERT(id USING utf8mb4),
	'state', CONVERT(state USING utf8mb4), 'kind', CONVERT(kind USING utf8mb4), 'units', units, 'capacity', capacity,
	'left', deadline - ` + clock + `,
	'ttl', ttl, 'grace', grace, 'age', ` + clock + ` - since, 'turn', turn, 'waits', waits,
	'details', details) AS BINARY)`

var text = routines.Text{
	Join:     "CALL holdfast_join(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? + 2 * ?, ?, ?, ?, ?, ?)",
	Keep:     "CALL holdfast_keep(?, ?, ?, ?, ?)",
	Leave:    "CALL holdfast_leave(?, ?, ?, ?, ?, ?, ?)",
	Break:    "CALL holdfast_break(?, ?, ?, ?, ?)",
	Transfer: "CALL holdfast_transfer(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	Tend:     "CALL holdfast_tend(?, ?, ?, ?)",
	Look:     "CALL holdfast_look(?, ?, ?, ?)",
	Expired:  "CALL holdfast_expired(?)",
	Queue:    "SELECT " + place + " FROM holdfast_claims WHERE prefix = ? AND name = ? ORDER BY seat",
	Names: `SELECT DISTINCT name FROM holdfast_claims WHERE prefix = ? AND LOCATE(?, name) = 1 AND deadline > ` +
		clock,
	Page: "SELECT name, format, " + place + ` FROM holdfast_claims
		WHERE prefix = ? AND LOCATE(?, name) = 1 AND name > ? ORDER BY name, seat LIMIT ?`,
}
