-- The tables and functions of Holdfast in a PostgreSQL database, format 2. Run it as one transaction. It also migrates
-- tables of an earlier format, as their owner; programs that know only an earlier one refuse them from then on. Claims
-- in them stay held.
--
-- Each operation is one call of one function, and so one transaction and one round trip. Its first statement updates the
-- slot of the resource, which locks it until the transaction ends: the statements after it see everything that earlier
-- holders of the slot have committed. Do not merge them into one statement: a statement's snapshot is taken before it
-- waits for a lock, and would show the queue as it was then.
--
-- Times are microseconds of the server's clock_timestamp(), read after the slot was locked.
--
-- The functions that clients call have one plan for all parameters, since a plan for each call costs more than the call.
-- They allow no sequential scan: plans are kept as long as a connection, and may have been made when the tables were
-- small. (SELECT … LIMIT 1) IS NULL replaces NOT EXISTS, which may be planned as a join with the whole queue.

DO $$ BEGIN
	IF to_regnamespace('holdfast') IS NULL THEN -- IF NOT EXISTS would need CREATE on the database also for a migration
		CREATE SCHEMA holdfast;
	ELSIF to_regclass('holdfast.slots') IS NOT NULL THEN
		IF (SELECT max(format) FROM holdfast.slots) > 2 THEN
			RAISE 'the tables of Holdfast have a newer format than 2';
		END IF;
		LOCK TABLE holdfast.slots IN SHARE ROW EXCLUSIVE MODE; -- no call of an earlier version is under way
	END IF;
END $$;

CREATE TABLE IF NOT EXISTS holdfast.meta (
	one      boolean PRIMARY KEY DEFAULT true CHECK (one),
	identity text    NOT NULL DEFAULT gen_random_uuid()::text, -- a random name of these tables
	swept    bigint  NOT NULL DEFAULT 0                        -- when expired claims were last searched for
);
INSERT INTO holdfast.meta DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Slots serialise resources and draw their tickets. Names are spread over them by a hash.
CREATE TABLE IF NOT EXISTS holdfast.slots (
	slot   integer PRIMARY KEY,
	mark   bigint  NOT NULL, -- the highest ticket ever drawn here
	format integer NOT NULL  -- of all tables and functions. A program that knows only a smaller one touches nothing.
) WITH (fillfactor = 10);    -- updates stay in their page and touch no index
INSERT INTO holdfast.slots SELECT slot, 0, 2 FROM generate_series(0, 255) AS slot ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS holdfast.claims (
	prefix   text     COLLATE "C" NOT NULL,
	name     text     COLLATE "C" NOT NULL,
	seat     bigint   NOT NULL, -- orders the queue. An exclusive holder has seat 0, which exists once.
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

-- Claims that were left before their join was acknowledged. A late join of such a claim must fail.
CREATE TABLE IF NOT EXISTS holdfast.tombstones (
	id       text   COLLATE "C" PRIMARY KEY,
	prefix   text   COLLATE "C" NOT NULL,
	name     text   COLLATE "C" NOT NULL,
	deadline bigint NOT NULL
);

-- For operators.
CREATE OR REPLACE VIEW holdfast.queues AS
	SELECT prefix, name, state, kind, units, capacity, ticket, details::json ->> 'label' AS label,
		details::json ->> 'host' AS host, details::json ->> 'pid' AS pid, details::json ->> 'id' AS owner,
		to_timestamp(since / 1000000.0) AS since, to_timestamp(deadline / 1000000.0) AS deadline
	FROM holdfast.claims ORDER BY prefix, name, seat;

CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- too_high reports whether a mark was set by hand.
CREATE OR REPLACE FUNCTION holdfast.too_high(p_mark bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
	SELECT p_mark >= 36028797018963967 OR p_mark > 4102444800000000 AND p_mark > holdfast.clock() + 86400000000
$$;

-- lock_slot locks a slot, and returns the format of the tables.
CREATE OR REPLACE FUNCTION holdfast.lock_slot(p_slot integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_format integer;
BEGIN
	UPDATE holdfast.slots SET mark = mark WHERE slot = p_slot RETURNING format INTO STRICT v_format;
	RETURN v_format;
END $$;

-- place describes a claim in JSON.
CREATE OR REPLACE FUNCTION holdfast.place(c holdfast.claims, p_now bigint) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT json_build_object('ticket', c.ticket, 'id', c.id, 'state', c.state, 'kind', c.kind, 'units', c.units,
		'capacity', c.capacity, 'left', c.deadline - p_now, 'ttl', c.ttl, 'grace', c.grace, 'age', p_now - c.since,
		'turn', c.turn, 'waits', c.waits, 'details', c.details)::text
$$;

-- front reads a queue up to its first waiting claim, or up to a given seat: this part decides when the queue changes next.
-- due is true if a claim has expired, or would expire later than its ttl allows, as after a clock was set back, or if
-- nothing is ahead of the waiting claim, as after a holder was deleted by hand. earliest is the first deadline of all
-- claims read, ahead that of the claims ahead of the waiting claim, and waiter the seat of the waiting claim.
CREATE OR REPLACE FUNCTION holdfast.front(p_prefix text, p_name text, p_now bigint, p_before bigint, OUT newest integer,
	OUT earliest bigint, OUT ahead bigint, OUT due boolean, OUT waits boolean, OUT waiter bigint)
	LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	c record;
BEGIN
	newest := 0; due := false; waits := false;
	FOR c IN SELECT l.seat, l.format, l.state, l.deadline, l.ttl, l.grace FROM holdfast.claims l
		WHERE l.prefix = p_prefix AND l.name = p_name ORDER BY l.seat
	LOOP
		EXIT WHEN c.seat >= p_before;
		newest := greatest(newest, c.format);
		waits := c.state = 'waiting';
		due := due OR c.deadline <= p_now OR c.deadline - c.ttl - c.grace > p_now OR waits AND earliest IS NULL;
		ahead := earliest;
		earliest := least(earliest, c.deadline);
		IF waits THEN
			waiter := c.seat;
			EXIT;
		END IF;
	END LOOP;
END $$;

-- advance removes expired claims from the front of a queue, and grants the claims that then fit: a claim fits if its
-- units, and those of the claims before it, are within its own capacity. The caller has locked the slot.
CREATE OR REPLACE FUNCTION holdfast.advance(p_format integer, p_prefix text, p_name text, p_now bigint,
	OUT held integer, OUT used bigint) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	c        holdfast.claims;
	v_kind   text;
	v_mended boolean := false;
BEGIN
	held := 0; used := 0;
	FOR c IN SELECT l.* FROM holdfast.claims l WHERE l.prefix = p_prefix AND l.name = p_name ORDER BY l.seat LOOP
		EXIT WHEN c.format > p_format;
		IF c.deadline <= p_now THEN
			DELETE FROM holdfast.claims l WHERE l.prefix = p_prefix AND l.name = p_name AND l.seat = c.seat;
			CONTINUE;
		END IF;
		IF c.deadline - c.ttl - c.grace > p_now AND NOT v_mended THEN
			-- The clock was set back. That must not delay a waiter by more than a ttl, however many clients have died.
			UPDATE holdfast.claims l SET deadline = p_now + l.ttl + l.grace WHERE l.prefix = p_prefix AND l.name = p_name
				AND l.deadline - l.ttl - l.grace > p_now AND l.format <= p_format;
			v_mended := true;
		END IF;
		IF c.state = 'waiting' THEN
			EXIT WHEN used + c.units > c.capacity OR held > 0 AND c.kind <> v_kind;
			UPDATE holdfast.claims l SET state = 'held', since = p_now,
				seat = CASE WHEN l.kind = 'lock' AND l.units = l.capacity THEN 0 ELSE l.ticket END
				WHERE l.prefix = p_prefix AND l.name = p_name AND l.seat = c.seat;
			IF c.inbox <> '' THEN
				PERFORM pg_notify('holdfast_' || c.inbox, 'held ' || c.id || ' ' || c.ticket);
			END IF;
		END IF;
		held := held + 1;
		used := used + c.units;
		v_kind := c.kind;
	END LOOP;
END $$;

-- tidy removes all expired claims from a queue, grants the claims that then fit, and counts what is left. A queue that
-- contains a row of a newer format is only counted. kind and capacity are those of the first claim. It reads the whole
-- queue. The caller has locked the slot.
CREATE OR REPLACE FUNCTION holdfast.tidy(p_format integer, p_prefix text, p_name text, p_id text, p_now bigint,
	OUT total integer, OUT held integer, OUT used bigint, OUT earliest bigint, OUT kind text, OUT capacity integer,
	OUT newest integer, OUT present boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_variable
DECLARE
	v_ahead bigint;
	v_least integer;
BEGIN
	LOOP
		SELECT count(*), min(c.deadline), max(c.kind), max(c.capacity), min(c.capacity), coalesce(max(c.format), 0),
			coalesce(bool_or(c.id = p_id), false), max(c.deadline - c.ttl - c.grace)
			INTO total, earliest, kind, capacity, v_least, newest, present, v_ahead
			FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name;
		IF total = 0 OR newest > p_format THEN
			RETURN;
		END IF;
		IF v_ahead > p_now THEN -- the clock was set back
			UPDATE holdfast.claims c SET deadline = p_now + c.ttl + c.grace
				WHERE c.prefix = p_prefix AND c.name = p_name AND c.deadline - c.ttl - c.grace > p_now;
			CONTINUE;
		END IF;
		EXIT WHEN earliest > p_now;
		DELETE FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.deadline <= p_now;
	END LOOP;
	SELECT a.held, a.used INTO held, used FROM holdfast.advance(p_format, p_prefix, p_name, p_now) a;
	IF v_least < capacity THEN -- claims with any limit have joined
		SELECT c.capacity INTO capacity FROM holdfast.claims c
			WHERE c.prefix = p_prefix AND c.name = p_name ORDER BY c.seat LIMIT 1;
	END IF;
END $$;

-- Results have these columns: i, the index of the claim in the request; state, empty if it is gone; ticket; ahead, -1 if
-- it was not counted; opens, the time until something ahead can expire, or 0; problem, empty if there is none; and place,
-- JSON of a claim that blocks this one. NULL stands for 0, -1 or empty.

-- join and leave begin with the most frequent case: no other client uses the resource. p_any is whether a claim joins
-- although its capacity differs from that of the first claim. Programs of format 1 call join without it.
DROP FUNCTION IF EXISTS holdfast.join(integer, integer, text, text, text, text, integer, integer, bigint, bigint, boolean,
	bigint, integer, text, text, text);
CREATE OR REPLACE FUNCTION holdfast.join(p_format integer, p_slot integer, p_prefix text, p_name text, p_id text, p_kind text,
	p_units integer, p_capacity integer, p_ttl bigint, p_grace bigint, p_try boolean, p_floor bigint, p_turn integer,
	p_inbox text, p_waits text, p_details text, p_any boolean DEFAULT false,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
DECLARE
	v_now    bigint;
	v_format integer;
	v_mark   bigint;
	v_line   record;
	v_fits   boolean;
	v_first  holdfast.claims;
BEGIN
	-- No ticket is drawn above a mark that was set by hand to a year beyond 2100, nor above a floor more than a day ahead.
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
	ELSIF v_line.present THEN -- the response to its first join was lost
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
	ELSIF v_line.kind <> p_kind OR v_line.capacity <> p_capacity AND NOT p_any THEN
		problem := 'mismatch';
		place := json_build_object('kind', v_line.kind, 'capacity', v_line.capacity)::text;
		RETURN;
	END IF;
	v_fits := v_line.total = 0 OR v_line.held = v_line.total AND v_line.used + p_units <= p_capacity;
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

-- left_until returns the time until a deadline, at least 1, or 0 if there is none.
CREATE OR REPLACE FUNCTION holdfast.left_until(p_deadline bigint, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN p_deadline IS NULL THEN 0 ELSE greatest(p_deadline - p_now, 1) END $$;

-- opens returns the time until something ahead of a waiting claim can expire, or 0.
CREATE OR REPLACE FUNCTION holdfast.opens(p_claim holdfast.claims, p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
	SELECT CASE WHEN p_claim.state = 'waiting' THEN (SELECT holdfast.left_until(f.earliest, p_now)
		FROM holdfast.front(p_claim.prefix, p_claim.name, p_now, p_claim.seat) f) ELSE 0 END
$$;

-- find finds a claim in its queue. If its client does not know its ticket, it is searched for in the whole queue. It must
-- be STABLE: look calls it without a lock, and a claim that is granted between two statements would be found at neither
-- seat.
CREATE OR REPLACE FUNCTION holdfast.find(p_prefix text, p_name text, p_id text, p_ticket bigint) RETURNS holdfast.claims
	LANGUAGE plpgsql STABLE AS $$
DECLARE
	c holdfast.claims;
BEGIN
	IF p_ticket = 0 THEN
		SELECT l.* INTO c FROM holdfast.claims l WHERE l.prefix = p_prefix AND l.name = p_name AND l.id = p_id;
		RETURN c;
	END IF;
	SELECT l.* INTO c FROM holdfast.claims l WHERE l.prefix = p_prefix AND l.name = p_name AND l.seat = 0 AND l.id = p_id;
	IF NOT FOUND THEN
		SELECT l.* INTO c FROM holdfast.claims l
			WHERE l.prefix = p_prefix AND l.name = p_name AND l.seat = p_ticket AND l.id = p_id;
	END IF;
	RETURN c;
END $$;

-- keep takes claims as a JSON array of objects with i, slot, name, id, units, ticket, ttl, grace, turn, waits, and the
-- index of their owner among the owners, a JSON array of texts.
CREATE OR REPLACE FUNCTION holdfast.keep(p_format integer, p_prefix text, p_inbox text, p_claims json, p_owners json)
	RETURNS TABLE (i integer, state text, ticket bigint, ahead integer, opens bigint, problem text, place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
	v_now     bigint;
	v_newest  integer;
	v_missing integer;
	v_owners  text[] := ARRAY(SELECT json_array_elements_text(p_owners)); -- parsed once, not for each claim
	v_renewed integer[] := '{}';
	v_front   record;
	v_name    text;
	r         record;
	c         holdfast.claims;
BEGIN
	WITH wanted AS MATERIALIZED (SELECT DISTINCT r.slot FROM json_to_recordset(p_claims) AS r (slot integer)),
		mine AS MATERIALIZED (SELECT slot FROM holdfast.slots WHERE slot IN (SELECT slot FROM wanted) ORDER BY slot FOR UPDATE),
		locked AS (UPDATE holdfast.slots s SET mark = s.mark FROM mine WHERE s.slot = mine.slot RETURNING s.format)
		SELECT max(format), (SELECT count(*) FROM wanted) - count(*) INTO v_newest, v_missing FROM locked;
	IF v_missing > 0 THEN
		RAISE no_data_found USING MESSAGE = 'a slot is missing';
	END IF;
	IF v_newest > p_format THEN
		RETURN QUERY SELECT r.i, '', 0::bigint, -1, 0::bigint, 'format', '' FROM json_to_recordset(p_claims) AS r (i integer);
		RETURN;
	END IF;
	v_now := holdfast.clock();
	-- Most leases are exclusive, and no claim waits for them. Rows are joined by ctid, for which there is only one plan.
	state := 'held';
	FOR i, ticket IN WITH r AS MATERIALIZED (SELECT r.*, (SELECT l.ctid FROM holdfast.claims l
				WHERE l.prefix = p_prefix AND l.name = r.name AND l.seat = 0 AND l.id = r.id
					AND l.units <= r.units AND l.format <= p_format AND l.deadline > v_now
					AND l.deadline - l.ttl - l.grace <= v_now AND (SELECT o.seat FROM holdfast.claims o
						WHERE o.prefix = p_prefix AND o.name = r.name AND o.seat > 0 LIMIT 1) IS NULL) AS place
			FROM json_to_recordset(p_claims) AS r (i integer, name text, id text, units integer, ttl bigint, grace bigint,
				turn integer, waits text, owner integer))
		UPDATE holdfast.claims l SET deadline = v_now + r.ttl + r.grace, ttl = r.ttl, grace = r.grace, turn = r.turn,
			inbox = p_inbox, waits = r.waits, details = v_owners[r.owner + 1]
			FROM r WHERE l.ctid = r.place RETURNING r.i, l.ticket
	LOOP
		v_renewed := v_renewed || i;
		RETURN NEXT;
	END LOOP;
	IF cardinality(v_renewed) = json_array_length(p_claims) THEN
		RETURN;
	END IF;
	FOR r IN SELECT * FROM json_to_recordset(p_claims) AS r (i integer, name text, id text, units integer, ticket bigint,
		ttl bigint, grace bigint, turn integer, waits text, owner integer)
		WHERE i NOT IN (SELECT unnest(v_renewed)) ORDER BY name
	LOOP
		i := r.i; state := NULL; ticket := NULL; opens := NULL; problem := NULL;
		IF r.name IS DISTINCT FROM v_name THEN
			v_name := r.name;
			v_front := holdfast.front(p_prefix, v_name, v_now, NULL);
			IF v_front.newest <= p_format AND v_front.due THEN
				PERFORM holdfast.advance(p_format, p_prefix, v_name, v_now);
				v_front := holdfast.front(p_prefix, v_name, v_now, NULL);
			END IF;
		END IF;
		IF v_front.newest > p_format THEN
			problem := 'format';
			RETURN NEXT;
			CONTINUE;
		END IF;
		c := holdfast.find(p_prefix, r.name, r.id, r.ticket);
		IF c.deadline <= v_now THEN -- behind the front
			DELETE FROM holdfast.claims l WHERE l.prefix = p_prefix AND l.name = r.name AND l.seat = c.seat;
		ELSIF c.id IS NOT NULL THEN
			UPDATE holdfast.claims l SET units = least(l.units, r.units),
				seat = CASE WHEN l.units > r.units THEN l.ticket ELSE l.seat END,
				deadline = v_now + r.ttl + r.grace, ttl = r.ttl, grace = r.grace, turn = r.turn, inbox = p_inbox,
				waits = r.waits, details = v_owners[r.owner + 1]
				WHERE l.prefix = p_prefix AND l.name = r.name AND l.seat = c.seat;
			IF c.units > r.units THEN
				PERFORM holdfast.advance(p_format, p_prefix, r.name, v_now);
				v_front := holdfast.front(p_prefix, v_name, v_now, NULL);
				c := holdfast.find(p_prefix, r.name, r.id, r.ticket);
			END IF;
			state := c.state; ticket := c.ticket;
			IF state = 'waiting' THEN
				opens := holdfast.left_until(
					CASE WHEN c.seat = v_front.waiter THEN v_front.ahead ELSE v_front.earliest END, v_now);
			END IF;
		END IF;
		RETURN NEXT;
	END LOOP;
END $$;

CREATE OR REPLACE FUNCTION holdfast.leave(p_format integer, p_slot integer, p_prefix text, p_name text, p_id text, p_ticket bigint,
	p_ttl bigint,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
DECLARE
	v_format integer;
	v_now    bigint;
	v_front  record;
	v_claim  holdfast.claims;
BEGIN
	UPDATE holdfast.slots s SET mark = s.mark WHERE s.slot = p_slot
		RETURNING s.format, holdfast.clock() INTO STRICT v_format, v_now;
	DELETE FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat = 0 AND c.id = p_id
		AND c.format <= p_format AND v_format <= p_format AND (SELECT o.seat FROM holdfast.claims o
			WHERE o.prefix = p_prefix AND o.name = p_name AND o.seat > 0 LIMIT 1) IS NULL;
	IF FOUND THEN
		RETURN;
	END IF;
	IF v_format > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	v_front := holdfast.front(p_prefix, p_name, v_now, NULL);
	IF v_front.newest > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	v_claim := holdfast.find(p_prefix, p_name, p_id, p_ticket);
	DELETE FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat = v_claim.seat;
	IF NOT FOUND AND p_ticket = 0 THEN
		DELETE FROM holdfast.tombstones b WHERE b.id = p_id; -- perhaps an older one
		INSERT INTO holdfast.tombstones (id, prefix, name, deadline) VALUES (p_id, p_prefix, p_name, v_now + p_ttl)
			ON CONFLICT (id) DO NOTHING;
	END IF;
	IF v_front.waits OR v_front.due THEN
		PERFORM holdfast.advance(p_format, p_prefix, p_name, v_now);
	END IF;
END $$;

-- transfer gives the held claim p_from the ID p_to and a new life, unless there is a tombstone for p_to. If p_to is in
-- the queue, the call is a repetition, and sets the life, unless it ends later anyway. Without p_turn and p_details those of the claim stay, as
-- for one that is detached from its client.
CREATE OR REPLACE FUNCTION holdfast.transfer(p_format integer, p_slot integer, p_prefix text, p_name text, p_from text,
	p_to text, p_ttl bigint, p_grace bigint, p_inbox text, p_waits text, p_turn integer, p_details text,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
DECLARE
	v_format integer;
	v_now    bigint;
	v_front  record;
	v_id     text;
	v_seat   bigint;
	c        record;
BEGIN
	UPDATE holdfast.slots s SET mark = s.mark WHERE s.slot = p_slot
		RETURNING s.format, holdfast.clock() INTO STRICT v_format, v_now;
	v_front := holdfast.front(p_prefix, p_name, v_now, NULL);
	IF greatest(v_format, v_front.newest) > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	IF v_front.due THEN
		PERFORM holdfast.advance(p_format, p_prefix, p_name, v_now);
	END IF;
	FOR c IN SELECT l.seat, l.ticket, l.id, l.state FROM holdfast.claims l
		WHERE l.prefix = p_prefix AND l.name = p_name ORDER BY l.seat
	LOOP
		EXIT WHEN c.state = 'waiting';
		IF c.id = p_to OR c.id = p_from AND v_id IS NULL THEN
			v_id := c.id; v_seat := c.seat; ticket := c.ticket;
		END IF;
	END LOOP;
	IF v_id IS NULL OR v_id <> p_to
			AND EXISTS (SELECT 1 FROM holdfast.tombstones b WHERE b.id = p_to AND b.deadline > v_now) THEN
		ticket := NULL;
		RETURN;
	END IF;
	state := 'held';
	UPDATE holdfast.claims l SET id = p_to, deadline = v_now + p_ttl + p_grace, ttl = p_ttl, grace = p_grace,
		inbox = p_inbox, waits = p_waits, turn = coalesce(p_turn, l.turn), details = coalesce(p_details, l.details)
		WHERE l.prefix = p_prefix AND l.name = p_name AND l.seat = v_seat
			AND (v_id <> p_to OR l.deadline < v_now + p_ttl + p_grace);
END $$;

CREATE OR REPLACE FUNCTION holdfast.break(p_format integer, p_slot integer, p_prefix text, p_name text, p_ticket bigint,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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

-- tend tidies a queue.
CREATE OR REPLACE FUNCTION holdfast.tend(p_format integer, p_slot integer, p_prefix text, p_name text,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text, OUT place text)
	LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
DECLARE
	v_line record;
BEGIN
	IF holdfast.lock_slot(p_slot) > p_format THEN
		problem := 'format';
		RETURN;
	END IF;
	v_line := holdfast.tidy(p_format, p_prefix, p_name, '', holdfast.clock());
	ahead := v_line.total;
	IF v_line.newest > p_format THEN
		problem := 'format';
	END IF;
END $$;

-- untidy reports whether the front of a queue has an expired claim, or one that fits and was not granted.
CREATE OR REPLACE FUNCTION holdfast.untidy(p_format integer, p_prefix text, p_name text) RETURNS text
	LANGUAGE plpgsql STABLE AS $$
DECLARE
	v_now  bigint := holdfast.clock();
	v_used bigint := 0;
	c      holdfast.claims;
BEGIN
	FOR c IN SELECT l.* FROM holdfast.claims l WHERE l.prefix = p_prefix AND l.name = p_name ORDER BY l.seat LOOP
		IF c.format > p_format THEN
			RETURN 'format';
		ELSIF c.deadline <= v_now OR c.state = 'waiting' AND v_used + c.units <= c.capacity THEN
			RETURN 'untidy';
		END IF;
		EXIT WHEN c.state = 'waiting';
		v_used := v_used + c.units;
	END LOOP;
	RETURN '';
END $$;

-- look reads the state of waiting claims: i, name, id, ticket. If it is thorough, the problem of a claim is 'untidy' if its
-- queue needs to be tidied.
CREATE OR REPLACE FUNCTION holdfast.look(p_format integer, p_prefix text, p_claims json, p_thorough boolean)
	RETURNS TABLE (i integer, state text, ticket bigint, ahead integer, opens bigint, problem text, place text)
	LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
	SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	v_name text;
	r      record;
	c      holdfast.claims;
BEGIN
	FOR r IN SELECT * FROM json_to_recordset(p_claims) AS r (i integer, name text, id text, ticket bigint) ORDER BY name
	LOOP
		c := holdfast.find(p_prefix, r.name, r.id, r.ticket);
		i := r.i; state := c.state; ticket := c.ticket;
		IF p_thorough AND r.name IS DISTINCT FROM v_name THEN
			v_name := r.name;
			problem := holdfast.untidy(p_format, p_prefix, r.name);
		END IF;
		RETURN NEXT;
	END LOOP;
END $$;

-- expired lists queues that have expired claims, unless a client has done so within the last minute.
CREATE OR REPLACE FUNCTION holdfast.expired(p_format integer) RETURNS TABLE (slot integer, prefix text, name text)
	LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
	v_now bigint := holdfast.clock();
BEGIN
	IF (SELECT max(s.format) FROM holdfast.slots s) > p_format THEN
		RETURN;
	END IF;
	UPDATE holdfast.meta SET swept = v_now WHERE swept < v_now - 60000000 OR swept > v_now;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	DELETE FROM holdfast.tombstones WHERE deadline <= v_now;
	RETURN QUERY SELECT DISTINCT c.slot, c.prefix, c.name FROM holdfast.claims c
		WHERE c.deadline <= v_now AND c.format <= p_format LIMIT 1000;
END $$;

-- Last: from now on programs of an earlier format refuse the tables.
UPDATE holdfast.slots SET format = 2 WHERE format < 2;
