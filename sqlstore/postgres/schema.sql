-- The tables and functions of Holdfast in a PostgreSQL database, format 1.
--
-- Each operation is one call of one function, and so one transaction and one round trip. Its first statement updates the
-- slot of the resource, which locks it until the transaction ends: the statements after it see everything that earlier
-- holders of the slot have committed. Do not merge them into one statement: a statement's snapshot is taken before it
-- waits for a lock, and would show the line as it was then.
--
-- Times are microseconds of the server's clock_timestamp(), read after the slot was locked.

CREATE SCHEMA holdfast;

CREATE TABLE holdfast.meta (
	one      boolean PRIMARY KEY DEFAULT true CHECK (one),
	identity text    NOT NULL DEFAULT gen_random_uuid()::text, -- a random name of these tables
	swept    bigint  NOT NULL DEFAULT 0                        -- when expired claims were last looked for
);
INSERT INTO holdfast.meta DEFAULT VALUES;

-- Slots serialise resources and draw their tickets. Names are spread over them by a hash.
CREATE TABLE holdfast.slots (
	slot   integer PRIMARY KEY,
	mark   bigint  NOT NULL, -- the highest ticket ever drawn here
	format integer NOT NULL  -- of all tables and functions. A program that knows only a smaller one touches nothing.
) WITH (fillfactor = 10);    -- updates stay in the page, and need no index
INSERT INTO holdfast.slots SELECT slot, 0, 1 FROM generate_series(0, 255) AS slot;

CREATE TABLE holdfast.claims (
	prefix   text     COLLATE "C" NOT NULL,
	name     text     COLLATE "C" NOT NULL,
	seat     bigint   NOT NULL, -- orders the line. 0 is the seat of an exclusive holder, and there is one such seat.
	slot     integer  NOT NULL,
	ticket   bigint   NOT NULL,
	id       text     COLLATE "C" NOT NULL,
	state    text     COLLATE "C" NOT NULL CHECK (state IN ('held', 'waiting')),
	kind     text     COLLATE "C" NOT NULL,
	units    integer  NOT NULL,
	capacity integer  NOT NULL,
	deadline bigint   NOT NULL, -- with the grace
	ttl      bigint   NOT NULL,
	grace    bigint   NOT NULL,
	since    bigint   NOT NULL,
	turn     smallint NOT NULL,
	inbox    text     COLLATE "C" NOT NULL, -- the channel that its client listens on is holdfast_ and this; empty: none
	waits    text     NOT NULL,             -- JSON, if its owner waits elsewhere
	details  text     NOT NULL,             -- JSON of the owner
	format   integer  NOT NULL,             -- of this row
	PRIMARY KEY (prefix, name, seat),
	CHECK (seat = CASE WHEN state = 'held' AND kind = 'lock' AND units = capacity THEN 0 ELSE ticket END)
) WITH (fillfactor = 50);

-- Claims that were left before they were known to have joined. They must not join any more.
CREATE TABLE holdfast.tombstones (
	id       text   COLLATE "C" PRIMARY KEY,
	prefix   text   COLLATE "C" NOT NULL,
	name     text   COLLATE "C" NOT NULL,
	deadline bigint NOT NULL
);

-- For people.
CREATE VIEW holdfast.lines AS
	SELECT prefix, name, state, kind, units, capacity, ticket, details::json ->> 'label' AS label,
		details::json ->> 'host' AS host, details::json ->> 'pid' AS pid, details::json ->> 'id' AS owner,
		to_timestamp(since / 1000000.0) AS since, to_timestamp(deadline / 1000000.0) AS deadline
	FROM holdfast.claims ORDER BY prefix, name, seat;

CREATE FUNCTION holdfast.clock() RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- too_high reports whether a mark was set by hand.
CREATE FUNCTION holdfast.too_high(p_mark bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
	SELECT p_mark >= 36028797018963967 OR p_mark > 4102444800000000 AND p_mark > holdfast.clock() + 86400000000
$$;

-- lock_slot locks a slot, and returns the format of the tables.
CREATE FUNCTION holdfast.lock_slot(p_slot integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_format integer;
BEGIN
	UPDATE holdfast.slots SET mark = mark WHERE slot = p_slot RETURNING format INTO STRICT v_format;
	RETURN v_format;
END $$;

-- place describes a claim in JSON.
CREATE FUNCTION holdfast.place(c holdfast.claims, p_now bigint) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT json_build_object('ticket', c.ticket, 'id', c.id, 'state', c.state, 'kind', c.kind, 'units', c.units,
		'capacity', c.capacity, 'left', c.deadline - p_now, 'ttl', c.ttl, 'grace', c.grace, 'age', p_now - c.since,
		'turn', c.turn, 'waits', c.waits, 'details', c.details)::text
$$;

-- tidy removes expired claims from a line, grants the claims that then fit, and counts what is left. A line that has
-- anything of a newer format is only counted. The slot is locked.
CREATE FUNCTION holdfast.tidy(p_format integer, p_prefix text, p_name text, p_id text, p_now bigint,
	OUT total integer, OUT held integer, OUT used bigint, OUT earliest bigint, OUT kind text, OUT capacity integer,
	OUT newest integer, OUT present boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
	v_ahead bigint;
	v_seat  bigint := 0;
	v_next  holdfast.claims;
BEGIN
	LOOP
		SELECT count(*), count(*) FILTER (WHERE c.state = 'held'),
			coalesce(sum(c.units) FILTER (WHERE c.state = 'held'), 0), min(c.deadline), max(c.kind), max(c.capacity),
			coalesce(max(c.format), 0), coalesce(bool_or(c.id = p_id), false), max(c.deadline - c.ttl - c.grace)
			INTO total, held, used, earliest, kind, capacity, newest, present, v_ahead
			FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name;
		IF total = 0 OR newest > p_format THEN
			RETURN;
		END IF;
		IF v_ahead > p_now THEN -- the clock was set back. Nobody is to wait longer for that than a ttl.
			UPDATE holdfast.claims c SET deadline = p_now + c.ttl + c.grace
				WHERE c.prefix = p_prefix AND c.name = p_name AND c.deadline - c.ttl - c.grace > p_now;
			CONTINUE;
		END IF;
		EXIT WHEN earliest > p_now;
		DELETE FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.deadline <= p_now;
	END LOOP;
	WHILE held < total LOOP
		SELECT c.* INTO v_next FROM holdfast.claims c
			WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat > v_seat AND c.state = 'waiting' ORDER BY c.seat LIMIT 1;
		EXIT WHEN NOT FOUND OR used + v_next.units > v_next.capacity
			OR held > 0 AND (v_next.kind <> kind OR v_next.capacity <> capacity);
		v_seat := v_next.seat;
		UPDATE holdfast.claims c SET state = 'held', since = p_now,
			seat = CASE WHEN c.kind = 'lock' AND c.units = c.capacity THEN 0 ELSE c.ticket END
			WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat = v_seat;
		held := held + 1;
		used := used + v_next.units;
		IF v_next.inbox <> '' THEN
			PERFORM pg_notify('holdfast_' || v_next.inbox, 'held ' || v_next.id || ' ' || v_next.ticket);
		END IF;
	END LOOP;
END $$;

-- Answers have these columns: i, which claim of the request; state, empty if it is gone; ticket; ahead, -1 if it was not
-- counted; opens, in how long something ahead can expire, or 0; problem, empty if there is none; and place, JSON of a
-- claim that is in the way. What is NULL has the value that says nothing.

-- All have one plan for all parameters: a plan for the parameters of each call costs more than the call.

-- join and leave begin with the case in which nobody else wants the resource, which is most of them.
CREATE FUNCTION holdfast.join(p_format integer, p_slot integer, p_prefix text, p_name text, p_id text, p_kind text,
	p_units integer, p_capacity integer, p_ttl bigint, p_grace bigint, p_try boolean, p_floor bigint, p_turn integer,
	p_inbox text, p_waits text, p_details text,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
	v_now    bigint;
	v_format integer;
	v_mark   bigint;
	v_line   record;
	v_fits   boolean;
	v_first  holdfast.claims;
BEGIN
	-- A mark is not counted on from if it was set by hand to a year beyond 2100, nor a floor if it is a day ahead.
	UPDATE holdfast.slots s SET mark = CASE
		WHEN s.format > p_format OR holdfast.too_high(s.mark) THEN s.mark
		WHEN p_floor > s.mark AND (p_floor > holdfast.clock() + 86400000000 OR p_floor >= 36028797018963967) THEN s.mark
		ELSE greatest(s.mark + 1, p_floor + 1, holdfast.clock()) END
		WHERE s.slot = p_slot RETURNING s.mark, s.format, holdfast.clock() INTO STRICT v_mark, v_format, v_now;
	INSERT INTO holdfast.claims (prefix, name, seat, slot, ticket, id, state, kind, units, capacity, deadline, ttl, grace,
			since, turn, inbox, waits, details, format)
		SELECT p_prefix, p_name, CASE WHEN p_kind = 'lock' AND p_units = p_capacity THEN 0 ELSE v_mark END, p_slot, v_mark,
			p_id, 'held', p_kind, p_units, p_capacity, v_now + p_ttl + p_grace, p_ttl, p_grace, v_now, p_turn, p_inbox,
			p_waits, p_details, p_format
		WHERE v_format <= p_format AND v_mark > p_floor AND NOT holdfast.too_high(v_mark)
			AND NOT EXISTS (SELECT 1 FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name)
			AND NOT EXISTS (SELECT 1 FROM holdfast.tombstones b WHERE b.id = p_id AND b.deadline > v_now);
	IF FOUND THEN
		state := 'held'; ticket := v_mark; ahead := 0;
		RETURN;
	END IF;
	IF v_format > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	v_line := holdfast.tidy(p_format, p_prefix, p_name, p_id, v_now);
	IF v_line.newest > p_format THEN
		problem := 'format';
		RETURN;
	ELSIF v_line.present THEN -- its response was lost
		UPDATE holdfast.claims c SET deadline = v_now + p_ttl + p_grace, ttl = p_ttl, grace = p_grace, inbox = p_inbox
			WHERE c.prefix = p_prefix AND c.name = p_name AND c.id = p_id RETURNING c.* INTO v_first;
		state := v_first.state; ticket := v_first.ticket;
		opens := holdfast.opens(v_first, v_now);
		RETURN;
	ELSIF EXISTS (SELECT 1 FROM holdfast.tombstones b WHERE b.id = p_id AND b.deadline > v_now) THEN
		RETURN;
	ELSIF holdfast.too_high(v_mark) THEN
		problem := 'mark'; ticket := v_mark;
		RETURN;
	ELSIF v_mark <= p_floor THEN
		problem := 'floor';
		RETURN;
	ELSIF v_line.kind <> p_kind OR v_line.capacity <> p_capacity THEN
		problem := 'mismatch';
		place := json_build_object('kind', v_line.kind, 'capacity', v_line.capacity)::text;
		RETURN;
	END IF;
	v_fits := v_line.held = v_line.total AND v_line.used + p_units <= p_capacity;
	ahead := v_line.total;
	IF p_try AND NOT v_fits THEN
		SELECT c.* INTO v_first FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name ORDER BY c.seat LIMIT 1;
		place := holdfast.place(v_first, v_now);
		RETURN;
	END IF;
	ticket := v_mark;
	state := CASE WHEN v_fits THEN 'held' ELSE 'waiting' END;
	opens := CASE WHEN v_fits THEN 0 ELSE greatest(v_line.earliest - v_now, 1) END;
	INSERT INTO holdfast.claims (prefix, name, seat, slot, ticket, id, state, kind, units, capacity, deadline, ttl, grace,
			since, turn, inbox, waits, details, format)
		VALUES (p_prefix, p_name, CASE WHEN v_fits AND p_kind = 'lock' AND p_units = p_capacity THEN 0 ELSE v_mark END,
			p_slot, v_mark, p_id, state, p_kind, p_units, p_capacity, v_now + p_ttl + p_grace, p_ttl, p_grace, v_now,
			p_turn, p_inbox, p_waits, p_details, p_format);
END $$;

-- opens returns in how long something ahead of a claim can expire, or 0.
CREATE FUNCTION holdfast.opens(p_claim holdfast.claims, p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT CASE WHEN p_claim.state = 'waiting' THEN (SELECT greatest(min(c.deadline) - p_now, 1) FROM holdfast.claims c
		WHERE c.prefix = p_claim.prefix AND c.name = p_claim.name AND c.seat < p_claim.seat) ELSE 0 END
$$;

-- seats looks for a claim whose ticket its client does not know.
CREATE FUNCTION holdfast.seats(p_prefix text, p_name text, p_id text) RETURNS bigint[] LANGUAGE sql VOLATILE AS $$
	SELECT array_agg(c.seat) FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.id = p_id
$$;

-- keep takes claims as a JSON array of objects with i, slot, name, id, units, ticket, ttl, grace, turn, waits, and the
-- index of their owner among the owners, a JSON array of texts.
CREATE FUNCTION holdfast.keep(p_format integer, p_prefix text, p_inbox text, p_claims json, p_owners json)
	RETURNS TABLE (i integer, state text, ticket bigint, ahead integer, opens bigint, problem text, place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
	v_now    bigint;
	v_newest integer;
	v_name   text;
	v_newer  text[] := '{}';
	v_shrunk text[];
BEGIN
	WITH mine AS MATERIALIZED (SELECT slot FROM holdfast.slots
			WHERE slot IN (SELECT r.slot FROM json_to_recordset(p_claims) AS r (slot integer)) ORDER BY slot FOR UPDATE),
		locked AS (UPDATE holdfast.slots s SET mark = s.mark FROM mine WHERE s.slot = mine.slot RETURNING s.format)
		SELECT max(format) INTO v_newest FROM locked;
	IF v_newest > p_format THEN
		RETURN QUERY SELECT r.i, '', 0::bigint, -1, 0::bigint, 'format', '' FROM json_to_recordset(p_claims) AS r (i integer);
		RETURN;
	END IF;
	v_now := holdfast.clock();
	FOR v_name IN SELECT DISTINCT r.name FROM json_to_recordset(p_claims) AS r (name text)
		WHERE EXISTS (SELECT 1 FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = r.name
			AND (c.deadline <= v_now OR c.format > p_format OR c.deadline - c.ttl - c.grace > v_now))
	LOOP
		SELECT newest INTO v_newest FROM holdfast.tidy(p_format, p_prefix, v_name, '', v_now);
		IF v_newest > p_format THEN
			v_newer := v_newer || v_name;
		END IF;
	END LOOP;
	WITH kept AS (
		SELECT r.*, c.seat, c.units > r.units AS shrinks FROM json_to_recordset(p_claims)
			AS r (name text, id text, units integer, ticket bigint, ttl bigint, grace bigint, turn integer, waits text, owner integer)
			JOIN holdfast.claims c ON c.prefix = p_prefix AND c.name = r.name AND c.id = r.id
				AND c.seat = ANY (CASE WHEN r.ticket > 0 THEN ARRAY[0, r.ticket] ELSE holdfast.seats(p_prefix, r.name, r.id) END)
			WHERE r.name <> ALL (v_newer)
	), written AS (
		UPDATE holdfast.claims c SET units = least(c.units, k.units),
			seat = CASE WHEN k.shrinks THEN c.ticket ELSE c.seat END,
			deadline = v_now + k.ttl + k.grace, ttl = k.ttl, grace = k.grace, turn = k.turn, inbox = p_inbox,
			waits = k.waits, details = p_owners ->> k.owner
			FROM kept k WHERE c.prefix = p_prefix AND c.name = k.name AND c.seat = k.seat
			RETURNING c.name, k.shrinks
	) SELECT array_agg(DISTINCT name) FILTER (WHERE shrinks) INTO v_shrunk FROM written;
	FOREACH v_name IN ARRAY coalesce(v_shrunk, '{}') LOOP
		PERFORM holdfast.tidy(p_format, p_prefix, v_name, '', v_now);
	END LOOP;
	RETURN QUERY SELECT r.i, c.state, c.ticket, NULL::integer,
			CASE WHEN c.state = 'waiting' THEN holdfast.opens(c.claim, v_now) END,
			CASE WHEN r.name = ANY (v_newer) THEN 'format' END, NULL
		FROM json_to_recordset(p_claims) AS r (i integer, name text, id text, ticket bigint)
		LEFT JOIN LATERAL (SELECT c.state, c.ticket, c AS claim FROM holdfast.claims c
			WHERE c.prefix = p_prefix AND c.name = r.name AND c.id = r.id
				AND c.seat = ANY (CASE WHEN r.ticket > 0 THEN ARRAY[0, r.ticket] ELSE holdfast.seats(p_prefix, r.name, r.id) END)
			OFFSET 0) c ON true; -- which keeps the planner from reading the whole table
END $$;

CREATE FUNCTION holdfast.leave(p_format integer, p_slot integer, p_prefix text, p_name text, p_id text, p_ticket bigint,
	p_ttl bigint,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
	v_format integer;
	v_now    bigint;
	v_line   record;
BEGIN
	UPDATE holdfast.slots s SET mark = s.mark WHERE s.slot = p_slot
		RETURNING s.format, holdfast.clock() INTO STRICT v_format, v_now;
	DELETE FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.id = p_id AND c.seat IN (0, p_ticket)
		AND c.format <= p_format AND v_format <= p_format AND NOT EXISTS (
			SELECT 1 FROM holdfast.claims o WHERE o.prefix = p_prefix AND o.name = p_name AND o.seat <> c.seat);
	IF FOUND THEN
		RETURN;
	END IF;
	IF v_format > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	v_line := holdfast.tidy(p_format, p_prefix, p_name, p_id, v_now);
	IF v_line.newest > p_format THEN
		problem := 'format';
	ELSIF v_line.present THEN
		DELETE FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.id = p_id;
		v_line := holdfast.tidy(p_format, p_prefix, p_name, '', v_now);
	ELSIF p_ticket = 0 THEN
		INSERT INTO holdfast.tombstones (id, prefix, name, deadline) VALUES (p_id, p_prefix, p_name, v_now + p_ttl)
			ON CONFLICT (id) DO NOTHING;
	END IF;
END $$;

CREATE FUNCTION holdfast.break(p_format integer, p_slot integer, p_prefix text, p_name text, p_ticket bigint,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
	v_now   bigint;
	v_line  record;
	v_claim holdfast.claims;
BEGIN
	IF holdfast.lock_slot(p_slot) > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	v_now := holdfast.clock();
	v_line := holdfast.tidy(p_format, p_prefix, p_name, '', v_now);
	IF v_line.newest > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	DELETE FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.ticket = p_ticket
		RETURNING c.* INTO v_claim;
	IF NOT FOUND THEN
		problem := 'not held';
		RETURN;
	END IF;
	IF v_claim.inbox <> '' THEN
		PERFORM pg_notify('holdfast_' || v_claim.inbox, 'gone ' || v_claim.id || ' ' || v_claim.ticket);
	END IF;
	v_line := holdfast.tidy(p_format, p_prefix, p_name, '', v_now);
END $$;

-- tend tidies a line.
CREATE FUNCTION holdfast.tend(p_format integer, p_slot integer, p_prefix text, p_name text,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
	v_line record;
BEGIN
	IF holdfast.lock_slot(p_slot) > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	v_line := holdfast.tidy(p_format, p_prefix, p_name, '', holdfast.clock());
	IF v_line.newest > p_format THEN
		problem := 'format';
	END IF;
END $$;

-- untidy says whether a line has something expired, or a claim that fits and was not granted.
CREATE FUNCTION holdfast.untidy(p_format integer, p_prefix text, p_name text) RETURNS text LANGUAGE sql STABLE AS $$
	SELECT CASE WHEN max(l.format) > p_format THEN 'format'
		WHEN min(l.deadline) <= holdfast.clock() OR coalesce(sum(l.units) FILTER (WHERE l.state = 'held'), 0)
			+ (SELECT n.units FROM holdfast.claims n WHERE n.prefix = p_prefix AND n.name = p_name AND n.state = 'waiting'
				ORDER BY n.seat LIMIT 1) <= max(l.capacity) THEN 'untidy' ELSE '' END
	FROM holdfast.claims l WHERE l.prefix = p_prefix AND l.name = p_name
$$;

-- look reads where waiting claims stand: i, name, id, ticket. If it is to be thorough, the problem of one is 'untidy'
-- if its line has something to be done.
CREATE FUNCTION holdfast.look(p_format integer, p_prefix text, p_claims json, p_thorough boolean)
	RETURNS TABLE (i integer, state text, ticket bigint, ahead integer, opens bigint, problem text, place text)
	LANGUAGE sql STABLE AS $$
	SELECT r.i, c.state, c.ticket, NULL::integer, NULL::bigint,
		CASE WHEN p_thorough THEN holdfast.untidy(p_format, p_prefix, r.name) END, NULL
	FROM json_to_recordset(p_claims) AS r (i integer, name text, id text, ticket bigint)
	LEFT JOIN LATERAL (SELECT c.state, c.ticket FROM holdfast.claims c
		WHERE c.prefix = p_prefix AND c.name = r.name AND c.seat IN (0, r.ticket) AND c.id = r.id OFFSET 0) c ON true
$$;

-- expired lists lines that have something expired, if nobody has looked for them for a minute.
CREATE FUNCTION holdfast.expired(p_format integer) RETURNS TABLE (slot integer, prefix text, name text)
	LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
	v_now bigint := holdfast.clock();
BEGIN
	UPDATE holdfast.meta SET swept = v_now WHERE swept < v_now - 60000000 OR swept > v_now;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	DELETE FROM holdfast.tombstones WHERE deadline <= v_now;
	RETURN QUERY SELECT DISTINCT c.slot, c.prefix, c.name FROM holdfast.claims c
		WHERE c.deadline <= v_now AND c.format <= p_format LIMIT 1000;
END $$;
