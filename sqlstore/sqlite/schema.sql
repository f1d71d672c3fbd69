-- The tables of Holdfast in a SQLite file, format 1.
-- Deadlines are nanoseconds since this machine was started: setting a clock does not move them.

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
	seat     INTEGER NOT NULL, -- orders the queue. An exclusive holder has seat 0, which exists once.
	ticket   INTEGER NOT NULL,
	id       TEXT    NOT NULL,
	state    TEXT    NOT NULL CHECK (state IN ('held', 'waiting')),
	kind     TEXT    NOT NULL,
	units    INTEGER NOT NULL,
	capacity INTEGER NOT NULL,
	deadline INTEGER NOT NULL, -- with the grace
	ttl      INTEGER NOT NULL, -- nanoseconds
	grace    INTEGER NOT NULL,
	since    INTEGER NOT NULL, -- microseconds since 1970, for operators
	turn     INTEGER NOT NULL,
	inbox    TEXT    NOT NULL, -- the socket of its client
	waits    TEXT    NOT NULL, -- JSON, if its owner waits elsewhere
	details  TEXT    NOT NULL, -- JSON of the owner, and its parts for operators:
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

-- Claims that were left before their join was acknowledged. A late join of such a claim must fail.
CREATE TABLE holdfast_tombstones (
	id       TEXT    PRIMARY KEY,
	prefix   TEXT    NOT NULL,
	name     TEXT    NOT NULL,
	deadline INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- For operators.
CREATE VIEW holdfast_queues AS
	SELECT prefix, name, state, kind, units, capacity, ticket, label, host, pid, owner,
		datetime(since / 1000000, 'unixepoch') AS since
	FROM holdfast_claims ORDER BY prefix, name, seat;
