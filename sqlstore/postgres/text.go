package postgres

import (
	_ "embed" // for the schema

	"github.com/holdfast-go/holdfast/sqlstore/routines"
)

//go:embed schema.sql
var schema string

//go:embed grants.sql
var grants string

// Schema returns the SQL that creates the tables and functions, or migrates them from an earlier format, for psql.
func Schema() string { return schema }

// Grants returns the SQL that grants a user named app the least privileges that it needs, once the tables exist.
func Grants() string { return grants }

// answer selects the columns of a result.
const answer = "SELECT coalesce(i, 0), coalesce(state, ''), coalesce(ticket, 0), coalesce(ahead, -1), " +
	"coalesce(opens, 0), " +
	"coalesce(problem, ''), coalesce(place, '') FROM "

var text = routines.Text{
	Join: answer + `holdfast.join($1::int, $2::int, $3::text, $4::text, $5::text, $6::text, $7::int, $8::int,
		$9::bigint, $10::bigint, $11::boolean, $13::bigint, $14::int, $15::text, $16::text, $17::text, $12::boolean)`,
	Keep:  answer + `holdfast.keep($1::int, $2::text, $3::text, $4::json, $5::json)`,
	Leave: answer + `holdfast.leave($1::int, $2::int, $3::text, $4::text, $5::text, $6::bigint, $7::bigint)`,
	Break: answer + `holdfast.break($1::int, $2::int, $3::text, $4::text, $5::bigint)`,
	Transfer: answer + `holdfast.transfer($1::int, $2::int, $3::text, $4::text, $5::text, $6::text, $7::bigint,
		$8::bigint, $9::text, $10::text, $11::int, $12::text)`,
	Tend:    answer + `holdfast.tend($1::int, $2::int, $3::text, $4::text)`,
	Look:    answer + `holdfast.look($1::int, $2::text, $3::json, $4::boolean)`,
	Expired: `SELECT * FROM holdfast.expired($1::int)`,
	Queue: `SELECT holdfast.place(c, holdfast.clock()) FROM holdfast.claims c
		WHERE prefix = $1::text AND name = $2::text ORDER BY seat`,
	Names: `SELECT DISTINCT name FROM holdfast.claims WHERE prefix = $1::text AND name >= $2::text
		AND starts_with(name, $2::text) AND deadline > holdfast.clock()`,
	Page: `SELECT name, format, holdfast.place(c, holdfast.clock()) FROM holdfast.claims c
		WHERE prefix = $1::text AND name >= $2::text AND starts_with(name, $2::text) AND name > $3::text
		ORDER BY name, seat LIMIT $4::int`,
}
