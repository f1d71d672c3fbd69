package cli

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/sqlstore/mysql"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
)

// A schema is the SQL that a database needs if the user of its locks may not create tables.
type schema struct {
	database    string
	sql, grants func() string
	quote       func(user string) string
}

var schemas = []schema{
	{"postgres", postgres.Schema, postgres.Grants, quotePostgres},
	{"mysql", mysql.Schema, mysql.Grants, quoteMySQL},
}

func quotePostgres(user string) string { return quoted(user, `"`) }

// quoteMySQL quotes a user name, which may have a host after the last @.
func quoteMySQL(user string) string {
	host := "%"
	if at := strings.LastIndexByte(user, '@'); at >= 0 {
		user, host = user[:at], user[at+1:]
	}
	return quoted(user, "`") + "@" + quoted(host, "`")
}

func quoted(name, quote string) string {
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

func newSchema(a *app) *cobra.Command {
	var user string
	var names []string
	for _, s := range schemas {
		names = append(names, s.database)
	}
	cmd := &cobra.Command{
		Use:   "schema " + strings.Join(names, "|"),
		Short: "Print the SQL that creates the tables of a database's locks",
		Long: `Print the SQL that creates the tables of a database's locks, and at its end, as comments, the grants
for the user of the programs that lock.

It is for databases where that user may not create tables. Otherwise the first program creates them.
The command does not connect: an administrator pipes its output into the database's own client.`,
		Example: `  holdfast schema postgres | psql -1 -v ON_ERROR_STOP=1 -d app
  holdfast schema postgres --user shop
  holdfast schema mysql --user shop@10.0.0.% | mariadb app`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("which database? write: holdfast schema %s", strings.Join(names, ", or "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if user == "" || strings.ContainsFunc(user, unicode.IsControl) {
				return usageError("--user is not a valid name: it is empty, or has a control character")
			}
			for _, s := range schemas {
				if s.database == args[0] {
					return s.write(a, user)
				}
			}
			return usageError("%s is not known; there are %s", repeated(args[0]), strings.Join(names, " and "))
		},
	}
	cmd.Flags().StringVar(&user, "user", "YOUR_USER", "`NAME` of the user in the grants")
	return cmd
}

// write writes the SQL, and the grants as comments.
func (s *schema) write(a *app, user string) error {
	var text strings.Builder
	text.WriteString(strings.TrimRight(s.sql(), "\n"))
	text.WriteString("\n\n-- A user that only locks needs these grants:\n--\n")
	for line := range strings.Lines(s.grants()) {
		if grant, _, ok := strings.Cut(line, " TO "); ok && strings.HasPrefix(grant, "GRANT ") {
			fmt.Fprintf(&text, "-- %s TO %s;\n", grant, s.quote(user))
		}
	}
	_, err := fmt.Fprint(a.stdout, text.String())
	return err
}
