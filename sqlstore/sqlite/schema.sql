-- The tables of Holdfast in a SQLite file, format 1.
-- Times named deadline are nanoseconds since this machine was started, so that nobody's clock can be set.

CREATE TABLE holdfast_meta (
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	format   INTEGER NOT NULL, -- of these tables. A program that knows only a smaller one touches nothing.
	identity TEXT    NOT NULL, -- a random name of this file
	boot     TEXT    NOT NULL, -- which start of the machine deadlines count from
	mark     INTEGER NOT NULL  -- the highest ticket ever given
) STRICT;

CREATE TABLE holdfast_claims (
	prefix   TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	seat     INTEGER NOT NULL, -- orders the line. 0 is the seat of who holds alone, and there is one such seat.
	ticket   INTEGER NOT NULL,
	id       TEXT    NOT NULL,
	state    TEXT    NOT NULL CHECK (state IN ('held', 'waiting')),
	kind     TEXT    NOT NULL,
	units    INTEGER NOT NULL,
	capacity INTEGER NOT NULL,
	deadline INTEGER NOT NULL, -- with the grace
	ttl      INTEGER NOT NULL, -- nanoseconds
	grace    INTEGER NOT NULL,
	since    INTEGER NOT NULL, -- microseconds since 1970, for people
	turn     INTEGER NOT NULL,
	inbox    TEXT    NOT NULL, -- whom to tell
	waits    TEXT    NOT NULL, -- JSON, if its owner waits elsewhere
	details  TEXT    NOT NULL, -- JSON, and for people:
	owner    TEXT    AS (details ->> '$.id'),
	label    TEXT    AS (details ->> '$.label'),
	host     TEXT    AS (details ->> '$.host'),
	address  TEXT    AS (details ->> '$.address'),
	pid      INTEGER AS (details ->> '$.pid'),
	started  TEXT    AS (details ->> '$.started'),
	format   INTEGER NOT NULL, -- of this row
	PRIMARY KEY (prefix, name, seat),
	CHECK (seat = CASE WHEN state = 'held' AND kind = 'lock' AND units = capacity THEN 0 ELSE ticket END)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER holdfast_drawn AFTER INSERT ON holdfast_claims BEGIN
	UPDATE holdfast_meta SET mark = max(mark, NEW.ticket);
END;

-- Claims that were left before they were known to have joined. They must not join any more.
CREATE TABLE holdfast_tombstones (
	id       TEXT    PRIMARY KEY,
	prefix   TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	deadline INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- For people.
CREATE VIEW holdfast_lines AS
	SELECT prefix, name, state, kind, units, capacity, ticket, label, host, pid, owner,
		datetime(since / 1000000, 'unixepoch') AS since
	FROM holdfast_claims ORDER BY prefix, name, seat;
