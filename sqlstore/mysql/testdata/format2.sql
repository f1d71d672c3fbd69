-- The tables and procedures of Holdfast in a MySQL or MariaDB database, format 2. Run it in the database that is to keep
-- the locks, with the mysql or mariadb client. It may be run again, but not while clients are running: the procedures
-- are missing for a moment. It also migrates tables of an earlier format; programs that know only an earlier one refuse
-- them from then on. Claims in them stay held. Privileges on the procedures have to be granted again.
--
-- Each operation is one call of one procedure, which is one transaction and one round trip. It first locks the slot of
-- the resource, until the transaction ends. The isolation is READ COMMITTED, so that each statement after it sees
-- everything that earlier holders of the slot have committed. Do not merge them into one statement: its snapshot would
-- be from before it waited for the lock.
--
-- Times are microseconds of the server's clock, read after the slot was locked. UTC_TIMESTAMP is when the statement
-- began, each statement of a procedure is one, and it knows no time zone and no daylight saving time.
--
-- COMMIT and ROLLBACK are spelled out with NO CHAIN NO RELEASE, so that completion_type has no effect.
--
-- Text is binary throughout: no collation compares it, and no connection's character set converts it.

DELIMITER //

SET NAMES utf8mb4 //
SET SESSION sql_mode = 'TRADITIONAL' // -- procedures keep it

CREATE TABLE IF NOT EXISTS holdfast_meta (
	one      TINYINT       NOT NULL DEFAULT 1 PRIMARY KEY CHECK (one = 1),
	identity VARBINARY(64) NOT NULL,          -- a random name of these tables
	swept    BIGINT        NOT NULL DEFAULT 0 -- when expired claims were last searched for
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin //

-- Slots serialise resources and draw their tickets. Names are spread over them by a hash.
CREATE TABLE IF NOT EXISTS holdfast_slots (
	slot   INT    NOT NULL PRIMARY KEY,
	mark   BIGINT NOT NULL, -- the highest ticket ever drawn here
	format INT    NOT NULL  -- of all tables and procedures. A program that knows only a smaller one touches nothing.
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin //

CREATE TABLE IF NOT EXISTS holdfast_claims (
	prefix   VARBINARY(512) NOT NULL,
	name     VARBINARY(512) NOT NULL,
	seat     BIGINT         NOT NULL, -- orders the queue. An exclusive holder has seat 0, which exists once.
	slot     INT            NOT NULL,
	ticket   BIGINT         NOT NULL,
	id       VARBINARY(64)  NOT NULL,
	state    VARBINARY(16)  NOT NULL CHECK (state IN ('held', 'waiting')),
	kind     VARBINARY(16)  NOT NULL,
	units    INT            NOT NULL,
	capacity INT            NOT NULL,
	deadline BIGINT         NOT NULL, -- with the grace
	ttl      BIGINT         NOT NULL,
	grace    BIGINT         NOT NULL,
	since    BIGINT         NOT NULL,
	turn     SMALLINT       NOT NULL,
	inbox    VARBINARY(64)  NOT NULL, -- not used here
	waits    MEDIUMTEXT     NOT NULL, -- JSON, if its owner waits elsewhere
	details  MEDIUMTEXT     NOT NULL, -- JSON of the owner
	format   INT            NOT NULL, -- of this row
	PRIMARY KEY (prefix, name, seat),
	CHECK (seat = CASE WHEN state = 'held' AND kind = 'lock' AND units = capacity THEN 0 ELSE ticket END)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin //

-- Claims that were left before their join was acknowledged. A late join of such a claim must fail.
CREATE TABLE IF NOT EXISTS holdfast_tombstones (
	id       VARBINARY(64)  NOT NULL PRIMARY KEY,
	prefix   VARBINARY(512) NOT NULL,
	name     VARBINARY(512) NOT NULL,
	deadline BIGINT         NOT NULL,
	KEY (deadline)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin //

-- For operators.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW holdfast_queues AS
	SELECT CONVERT(prefix USING utf8mb4) AS prefix, CONVERT(name USING utf8mb4) AS name,
		CONVERT(state USING utf8mb4) AS state, CONVERT(kind USING utf8mb4) AS kind, units, capacity, ticket,
		JSON_UNQUOTE(JSON_EXTRACT(details, '$.label')) AS label, JSON_UNQUOTE(JSON_EXTRACT(details, '$.host')) AS host,
		JSON_UNQUOTE(JSON_EXTRACT(details, '$.pid')) AS pid, JSON_UNQUOTE(JSON_EXTRACT(details, '$.id')) AS owner,
		FROM_UNIXTIME(since / 1000000) AS since, FROM_UNIXTIME(deadline / 1000000) AS deadline
	FROM holdfast_claims ORDER BY holdfast_claims.prefix, holdfast_claims.name, holdfast_claims.seat //

-- begin starts the transaction, locks a slot, and then reads the clock. It fails on a read-only server.
DROP PROCEDURE IF EXISTS holdfast_begin //
CREATE PROCEDURE holdfast_begin(IN p_slot INT, OUT p_format INT, OUT p_now BIGINT)
	MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
	IF CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') THEN -- users with special privileges could still write
		SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only';
	END IF;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT s.format INTO p_format FROM holdfast_slots s WHERE s.slot = p_slot FOR UPDATE;
	IF p_format IS NULL THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row of holdfast_slots is missing';
	END IF;
	SET p_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
END //

-- tidy removes expired claims from a queue, grants the claims that then fit, and counts what is left. A claim fits if its
-- units, and those of the claims before it, are within its own capacity. p_kind and p_capacity are those of the first
-- claim. A queue that contains a row of a newer format is only counted. The caller has locked the slot.
DROP PROCEDURE IF EXISTS holdfast_tidy //
CREATE PROCEDURE holdfast_tidy(IN p_format INT, IN p_prefix VARBINARY(512), IN p_name VARBINARY(512),
	IN p_id VARBINARY(64), IN p_now BIGINT, OUT p_total INT, OUT p_held INT, OUT p_used BIGINT, OUT p_earliest BIGINT,
	OUT p_kind VARBINARY(16), OUT p_capacity INT, OUT p_newest INT, OUT p_present BOOLEAN)
	MODIFIES SQL DATA SQL SECURITY INVOKER
tidy: BEGIN
	DECLARE v_ahead, v_next, v_seat BIGINT DEFAULT 0;
	DECLARE v_units, v_capacity, v_least INT;
	DECLARE v_kind VARBINARY(16);
	counting: LOOP
		SELECT COUNT(*), COALESCE(SUM(c.state = 'held'), 0), COALESCE(SUM(IF(c.state = 'held', c.units, 0)), 0),
			MIN(c.deadline), MAX(c.kind), MAX(c.capacity), COALESCE(MAX(c.format), 0), COALESCE(MAX(c.id = p_id), 0),
			MAX(c.deadline - c.ttl - c.grace), MIN(c.capacity)
			INTO p_total, p_held, p_used, p_earliest, p_kind, p_capacity, p_newest, p_present, v_ahead, v_least
			FROM holdfast_claims c WHERE c.prefix = p_prefix AND c.name = p_name;
		IF p_total = 0 OR p_newest > p_format THEN
			LEAVE tidy;
		ELSEIF v_ahead > p_now THEN -- the clock was set back. That must not delay a waiter by more than a ttl.
			UPDATE holdfast_claims c SET c.deadline = p_now + c.ttl + c.grace
				WHERE c.prefix = p_prefix AND c.name = p_name AND c.deadline - c.ttl - c.grace > p_now;
		ELSEIF p_earliest <= p_now THEN
			DELETE FROM holdfast_claims WHERE prefix = p_prefix AND name = p_name AND deadline <= p_now;
		ELSE
			LEAVE counting;
		END IF;
	END LOOP;
	granting: WHILE p_held < p_total DO
		SET v_next = NULL;
		SELECT c.seat, c.kind, c.units, c.capacity INTO v_next, v_kind, v_units, v_capacity FROM holdfast_claims c
			WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat > v_seat AND c.state = 'waiting'
			ORDER BY c.seat LIMIT 1;
		IF v_next IS NULL OR p_used + v_units > v_capacity
				OR p_held > 0 AND v_kind <> p_kind THEN
			LEAVE granting;
		END IF;
		SET v_seat = v_next;
		UPDATE holdfast_claims c SET c.state = 'held', c.since = p_now,
			c.seat = CASE WHEN c.kind = 'lock' AND c.units = c.capacity THEN 0 ELSE c.ticket END
			WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat = v_seat;
		SET p_held = p_held + 1, p_used = p_used + v_units;
	END WHILE;
	IF v_least < p_capacity THEN -- claims with any limit have joined
		SELECT c.capacity INTO p_capacity FROM holdfast_claims c
			WHERE c.prefix = p_prefix AND c.name = p_name ORDER BY c.seat LIMIT 1;
	END IF;
END //

-- Results have these columns: i, the index of the claim in the request; state, empty if it is gone; ticket; ahead, -1 if
-- it was not counted; opens, the time until something ahead can expire, or 0; problem, empty if there is none; and place,
-- JSON of a claim that blocks this one.

-- join and leave begin with the most frequent case: no other client uses the resource. What only other cases need is in
-- blocks of their own. MIN and MAX of the seats are read from the index while the statement is planned, which costs half
-- as much as EXISTS or COUNT.
--
-- p_options is a sum: 1 if a claim joins only if it is held at once, and 2 if it joins although its capacity differs from
-- that of the first claim. Programs of format 1 know the first only.

DROP PROCEDURE IF EXISTS holdfast_join //
CREATE PROCEDURE holdfast_join(p_format INT, p_slot INT, p_prefix VARBINARY(512), p_name VARBINARY(512),
	p_id VARBINARY(64), p_kind VARBINARY(16), p_units INT, p_capacity INT, p_ttl BIGINT, p_grace BIGINT, p_options TINYINT,
	p_floor BIGINT, p_turn INT, p_inbox VARBINARY(64), p_waits MEDIUMBLOB, p_details MEDIUMBLOB)
	MODIFIES SQL DATA SQL SECURITY INVOKER
joining: BEGIN
	DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
	DECLARE v_drawn, v_buried BIGINT; -- the ticket, or 0; the deadline of the claim's tombstone, or 0
	DECLARE v_some BOOLEAN;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	IF CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') THEN
		SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only';
	END IF;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	-- The greatest ticket is 2^55 - 1. No ticket is drawn above a mark that was set by hand to a year beyond 2100, nor
	-- above a floor that is more than a day ahead.
	UPDATE holdfast_slots s SET s.mark = LAST_INSERT_ID(GREATEST(s.mark + 1, p_floor + 1, v_now))
		WHERE s.slot = p_slot AND s.format <= p_format
			AND s.mark < 36028797018963967 AND (s.mark <= 4102444800000000 OR s.mark <= v_now + 86400000000)
			AND (p_floor <= s.mark OR p_floor < 36028797018963967 AND p_floor <= v_now + 86400000000);
	SELECT IF(ROW_COUNT() > 0, LAST_INSERT_ID(), 0), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
		MAX(c.seat) IS NOT NULL, (SELECT COALESCE(MAX(b.deadline), 0) FROM holdfast_tombstones b WHERE b.id = p_id)
		INTO v_drawn, v_now, v_some, v_buried FROM holdfast_claims c WHERE c.prefix = p_prefix AND c.name = p_name;
	IF v_drawn > 0 AND NOT v_some AND v_buried <= v_now AND p_units <= p_capacity THEN
		INSERT INTO holdfast_claims (prefix, name, seat, slot, ticket, id, state, kind, units, capacity, deadline, ttl, grace,
				since, turn, inbox, waits, details, format)
			VALUES (p_prefix, p_name, IF(p_kind = 'lock' AND p_units = p_capacity, 0, v_drawn), p_slot, v_drawn, p_id, 'held',
				p_kind, p_units, p_capacity, v_now + p_ttl + p_grace, p_ttl, p_grace, v_now, p_turn, p_inbox,
				CONVERT(p_waits USING utf8mb4), CONVERT(p_details USING utf8mb4), p_format);
		COMMIT AND NO CHAIN NO RELEASE;
		SELECT 0 AS i, 'held' AS state, v_drawn AS ticket, 0 AS ahead, 0 AS opens, '' AS problem, '' AS place;
		LEAVE joining;
	END IF;
	BEGIN
		DECLARE v_state, v_problem, v_kind VARBINARY(16) DEFAULT '';
		DECLARE v_ticket, v_opens, v_mark, v_used, v_earliest, v_seat BIGINT DEFAULT 0;
		DECLARE v_ahead INT DEFAULT -1;
		DECLARE v_format, v_total, v_held, v_capacity, v_newest INT DEFAULT 0;
		DECLARE v_present BOOLEAN DEFAULT FALSE;
		DECLARE v_fits BOOLEAN DEFAULT p_units <= p_capacity;
		DECLARE v_place MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT '';
		work: BEGIN
			IF v_drawn = 0 THEN
				SELECT s.mark, s.format INTO v_mark, v_format FROM holdfast_slots s WHERE s.slot = p_slot FOR UPDATE;
				IF v_format = 0 THEN
					SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row of holdfast_slots is missing';
				ELSEIF v_format > p_format THEN
					SET v_problem = 'format';
					LEAVE work;
				END IF;
				SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), v_some = TRUE; -- claims may have joined meanwhile
				SELECT COALESCE(MAX(b.deadline), 0) INTO v_buried FROM holdfast_tombstones b WHERE b.id = p_id;
			END IF;
			IF v_some THEN
				CALL holdfast_tidy(p_format, p_prefix, p_name, p_id, v_now,
					v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
				IF v_newest > p_format THEN
					SET v_problem = 'format';
					LEAVE work;
				ELSEIF v_present THEN -- the response to its first join was lost
					UPDATE holdfast_claims c
						SET c.deadline = v_now + p_ttl + p_grace, c.ttl = p_ttl, c.grace = p_grace, c.inbox = p_inbox
						WHERE c.prefix = p_prefix AND c.name = p_name AND c.id = p_id;
					SELECT c.state, c.ticket, c.seat INTO v_state, v_ticket, v_seat FROM holdfast_claims c
						WHERE c.prefix = p_prefix AND c.name = p_name AND c.id = p_id;
					IF v_state = 'waiting' THEN
						SELECT COALESCE(GREATEST(MIN(c.deadline) - v_now, 1), 0) INTO v_opens FROM holdfast_claims c
							WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat < v_seat;
					END IF;
					LEAVE work;
				END IF;
			END IF;
			IF v_buried > v_now THEN
				LEAVE work;
			ELSEIF v_drawn = 0 THEN
				SET v_problem = IF(v_mark >= 36028797018963967 OR v_mark > 4102444800000000 AND v_mark > v_now + 86400000000,
					'mark', 'floor'), v_ticket = v_mark;
				LEAVE work;
			ELSEIF v_total > 0 AND (v_kind <> p_kind OR v_capacity <> p_capacity AND p_options < 2) THEN
				SET v_problem = 'mismatch';
				SET v_place = JSON_OBJECT('kind', CONVERT(v_kind USING utf8mb4), 'capacity', v_capacity + 0);
				LEAVE work;
			END IF;
			SET v_fits = v_fits AND v_held = v_total AND v_used + p_units <= p_capacity, v_ahead = v_total;
			IF p_options IN (1, 3) AND NOT v_fits THEN
				SELECT JSON_OBJECT('ticket', c.ticket, 'id', CONVERT(c.id USING utf8mb4), 'state', CONVERT(c.state USING utf8mb4),
					'kind', CONVERT(c.kind USING utf8mb4), 'units', c.units, 'capacity', c.capacity, 'left', c.deadline - v_now,
					'ttl', c.ttl, 'grace', c.grace, 'age', v_now - c.since, 'turn', c.turn, 'waits', c.waits, 'details', c.details)
					INTO v_place FROM holdfast_claims c
					WHERE c.prefix = p_prefix AND c.name = p_name ORDER BY c.seat LIMIT 1;
				LEAVE work;
			END IF;
			SET v_ticket = v_drawn, v_state = IF(v_fits, 'held', 'waiting'),
				v_opens = IF(v_fits, 0, GREATEST(v_earliest - v_now, 1));
			INSERT INTO holdfast_claims (prefix, name, seat, slot, ticket, id, state, kind, units, capacity, deadline, ttl,
					grace, since, turn, inbox, waits, details, format)
				VALUES (p_prefix, p_name, IF(v_fits AND p_kind = 'lock' AND p_units = p_capacity, 0, v_ticket),
					p_slot, v_ticket, p_id, v_state, p_kind, p_units, p_capacity, v_now + p_ttl + p_grace, p_ttl, p_grace, v_now,
					p_turn, p_inbox, CONVERT(p_waits USING utf8mb4), CONVERT(p_details USING utf8mb4), p_format);
		END work;
		COMMIT AND NO CHAIN NO RELEASE;
		SELECT 0 AS i, v_state AS state, v_ticket AS ticket, v_ahead AS ahead, v_opens AS opens, v_problem AS problem,
			CAST(v_place AS BINARY) AS place;
	END;
END //

-- keep takes claims as a JSON array of objects with i, slot, name, id, units, ticket, ttl, grace, turn, waits, and the
-- index of their owner among the owners, a JSON array of texts. A claim is searched for at the two seats that its ticket
-- can have.
DROP PROCEDURE IF EXISTS holdfast_keep //
CREATE PROCEDURE holdfast_keep(p_format INT, p_prefix VARBINARY(512), p_inbox VARBINARY(64), p_claims LONGBLOB,
	p_owners LONGBLOB)
	MODIFIES SQL DATA SQL SECURITY INVOKER
keeping: BEGIN
	DECLARE v_claims JSON DEFAULT CONVERT(p_claims USING utf8mb4);
	DECLARE v_owners JSON DEFAULT CONVERT(p_owners USING utf8mb4);
	DECLARE v_owner MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin -- most claims have this owner
		DEFAULT JSON_UNQUOTE(JSON_EXTRACT(v_owners, '$[0]'));
	DECLARE v_newer LONGTEXT CHARACTER SET ascii COLLATE ascii_bin DEFAULT ''; -- names in hexadecimal, with commas
	DECLARE v_now, v_seat, v_ticket, v_used, v_earliest BIGINT;
	DECLARE v_format, v_missing, v_index, v_units, v_total, v_held, v_capacity, v_newest INT;
	DECLARE v_name VARBINARY(512);
	DECLARE v_id VARBINARY(64);
	DECLARE v_kind VARBINARY(16);
	DECLARE v_present BOOLEAN;
	DECLARE v_end BOOLEAN DEFAULT FALSE;
	DECLARE unknown CURSOR FOR SELECT r.n - 1, CAST(r.name AS BINARY), CAST(r.id AS BINARY)
		FROM JSON_TABLE(v_claims, '$[*]' COLUMNS (n FOR ORDINALITY, name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name',
			id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', ticket BIGINT PATH '$.ticket')) r WHERE r.ticket = 0;
	DECLARE untidy CURSOR FOR SELECT DISTINCT c.name
		FROM (SELECT DISTINCT CAST(j.name AS BINARY) AS name FROM JSON_TABLE(v_claims, '$[*]'
			COLUMNS (name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name')) j) r
		STRAIGHT_JOIN holdfast_claims c ON c.prefix = p_prefix AND c.name = r.name
		WHERE c.deadline <= v_now OR c.format > p_format OR c.deadline - c.ttl - c.grace > v_now;
	DECLARE shrunk CURSOR FOR SELECT c.name, c.seat, r.units
		FROM JSON_TABLE(v_claims, '$[*]' COLUMNS (name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name',
			id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', units INT PATH '$.units', ticket BIGINT PATH '$.ticket')) r
		STRAIGHT_JOIN JSON_TABLE('[0, 1]', '$[*]' COLUMNS (one INT PATH '$')) k
		STRAIGHT_JOIN holdfast_claims c ON c.prefix = p_prefix AND c.name = CAST(r.name AS BINARY)
			AND c.seat = r.ticket * k.one AND c.id = r.id
		WHERE c.units > r.units AND NOT FIND_IN_SET(HEX(c.name), v_newer);
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = TRUE;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	IF CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') THEN -- users with special privileges could still write
		SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only';
	END IF;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT MAX(s.format), COUNT(*) - COUNT(s.slot) INTO v_format, v_missing -- in order of slots, to avoid deadlocks
		FROM (SELECT DISTINCT j.slot FROM JSON_TABLE(v_claims, '$[*]' COLUMNS (slot INT PATH '$.slot')) j
			ORDER BY j.slot LIMIT 1000) r
		LEFT JOIN holdfast_slots s ON s.slot = r.slot FOR UPDATE;
	IF v_missing > 0 THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row of holdfast_slots is missing';
	END IF;
	SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
	IF v_format <= p_format THEN
		-- Most leases are exclusive, and no claim waits for them. If this is true of all, this statement is enough.
		UPDATE JSON_TABLE(v_claims, '$[*]' COLUMNS (name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name',
				id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', units INT PATH '$.units', ticket BIGINT PATH '$.ticket',
				ttl BIGINT PATH '$.ttl', grace BIGINT PATH '$.grace', turn INT PATH '$.turn',
				waits MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$.waits', owner INT PATH '$.owner')) r
			STRAIGHT_JOIN holdfast_claims c ON c.prefix = p_prefix AND c.name = CAST(r.name AS BINARY) AND c.seat = 0
				AND c.id = r.id AND c.ticket = r.ticket
			LEFT JOIN holdfast_claims o ON o.prefix = p_prefix AND o.name = c.name AND o.seat > 0
			SET c.deadline = v_now + r.ttl + r.grace, c.ttl = r.ttl, c.grace = r.grace, c.turn = r.turn, c.inbox = p_inbox,
				c.waits = r.waits,
				c.details = IF(r.owner = 0, v_owner, JSON_UNQUOTE(JSON_EXTRACT(v_owners, CONCAT('$[', r.owner, ']'))))
			WHERE o.seat IS NULL AND c.units <= r.units AND c.format <= p_format AND c.deadline > v_now
				AND c.deadline - c.ttl - c.grace <= v_now;
		IF ROW_COUNT() = JSON_LENGTH(v_claims) THEN
			COMMIT AND NO CHAIN NO RELEASE;
			SELECT r.i, 'held' AS state, r.ticket, -1 AS ahead, 0 AS opens, '' AS problem, '' AS place
				FROM JSON_TABLE(v_claims, '$[*]' COLUMNS (i INT PATH '$.i', ticket BIGINT PATH '$.ticket')) r;
			LEAVE keeping;
		END IF;
		OPEN untidy;
		tidying: LOOP
			FETCH untidy INTO v_name;
			IF v_end THEN
				LEAVE tidying;
			END IF;
			CALL holdfast_tidy(p_format, p_prefix, v_name, '', v_now,
				v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
			SET v_end = FALSE;
			IF v_newest > p_format THEN
				SET v_newer = CONCAT(v_newer, HEX(v_name), ',');
			END IF;
		END LOOP;
		CLOSE untidy;
		SET v_end = FALSE;
		OPEN unknown;
		finding: LOOP
			FETCH unknown INTO v_index, v_name, v_id;
			IF v_end THEN
				LEAVE finding;
			END IF;
			SELECT COALESCE(MAX(c.ticket), 0) INTO v_ticket FROM holdfast_claims c
				WHERE c.prefix = p_prefix AND c.name = v_name AND c.id = v_id;
			SET v_claims = JSON_SET(v_claims, CONCAT('$[', v_index, '].ticket'), v_ticket);
		END LOOP;
		CLOSE unknown;
		SET v_end = FALSE;
		OPEN shrunk;
		shrinking: LOOP
			FETCH shrunk INTO v_name, v_seat, v_units;
			IF v_end THEN
				LEAVE shrinking;
			END IF;
			UPDATE holdfast_claims c SET c.units = v_units, c.seat = c.ticket
				WHERE c.prefix = p_prefix AND c.name = v_name AND c.seat = v_seat AND c.units > v_units;
			CALL holdfast_tidy(p_format, p_prefix, v_name, '', v_now,
				v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
			SET v_end = FALSE;
		END LOOP;
		CLOSE shrunk;
		UPDATE JSON_TABLE(v_claims, '$[*]' COLUMNS (name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name',
				id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', ticket BIGINT PATH '$.ticket', ttl BIGINT PATH '$.ttl',
				grace BIGINT PATH '$.grace', turn INT PATH '$.turn',
				waits MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$.waits', owner INT PATH '$.owner')) r
			STRAIGHT_JOIN JSON_TABLE('[0, 1]', '$[*]' COLUMNS (one INT PATH '$')) k
			STRAIGHT_JOIN holdfast_claims c ON c.prefix = p_prefix AND c.name = CAST(r.name AS BINARY)
				AND c.seat = r.ticket * k.one AND c.id = r.id
			SET c.deadline = v_now + r.ttl + r.grace, c.ttl = r.ttl, c.grace = r.grace, c.turn = r.turn, c.inbox = p_inbox,
				c.waits = r.waits,
				c.details = IF(r.owner = 0, v_owner, JSON_UNQUOTE(JSON_EXTRACT(v_owners, CONCAT('$[', r.owner, ']'))))
			WHERE NOT FIND_IN_SET(HEX(c.name), v_newer);
	END IF;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT r.i, COALESCE(h.state, c.state, '') AS state, COALESCE(h.ticket, c.ticket, 0) AS ticket, -1 AS ahead,
			CASE WHEN c.state = 'waiting' THEN (SELECT COALESCE(GREATEST(MIN(o.deadline) - v_now, 1), 0) FROM holdfast_claims o
				WHERE o.prefix = c.prefix AND o.name = c.name AND o.seat < c.seat) ELSE 0 END AS opens,
			CASE WHEN v_format > p_format OR FIND_IN_SET(HEX(r.name), v_newer) THEN 'format' ELSE '' END AS problem,
			'' AS place
		FROM JSON_TABLE(v_claims, '$[*]' COLUMNS (i INT PATH '$.i', name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name',
			id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', ticket BIGINT PATH '$.ticket')) r
		LEFT JOIN holdfast_claims h ON h.prefix = p_prefix AND h.name = CAST(r.name AS BINARY) AND h.seat = 0
			AND h.id = r.id
		LEFT JOIN holdfast_claims c ON c.prefix = p_prefix AND c.name = CAST(r.name AS BINARY) AND c.seat = r.ticket
			AND c.id = r.id;
END //

DROP PROCEDURE IF EXISTS holdfast_leave //
CREATE PROCEDURE holdfast_leave(p_format INT, p_slot INT, p_prefix VARBINARY(512), p_name VARBINARY(512),
	p_id VARBINARY(64), p_ticket BIGINT, p_ttl BIGINT)
	MODIFIES SQL DATA SQL SECURITY INVOKER
leaving: BEGIN
	DECLARE v_format INT;
	DECLARE v_first, v_last BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	IF CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') THEN
		SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only';
	END IF;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT s.format INTO v_format FROM holdfast_slots s WHERE s.slot = p_slot FOR UPDATE;
	SELECT MIN(c.seat), MAX(c.seat) INTO v_first, v_last FROM holdfast_claims c
		WHERE c.prefix = p_prefix AND c.name = p_name;
	IF v_format <= p_format AND v_first = v_last AND (p_ticket = 0 OR v_first IN (0, p_ticket)) THEN
		DELETE FROM holdfast_claims
			WHERE prefix = p_prefix AND name = p_name AND seat = v_first AND id = p_id AND format <= p_format;
		IF ROW_COUNT() > 0 THEN
			COMMIT AND NO CHAIN NO RELEASE;
			SELECT 0 AS i, '' AS state, 0 AS ticket, -1 AS ahead, 0 AS opens, '' AS problem, '' AS place;
			LEAVE leaving;
		END IF;
	ELSEIF v_format IS NULL THEN
		SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row of holdfast_slots is missing';
	END IF;
	BEGIN
		DECLARE v_problem, v_kind VARBINARY(16) DEFAULT '';
		DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
		DECLARE v_used, v_earliest BIGINT;
		DECLARE v_total, v_held, v_capacity, v_newest, v_left INT DEFAULT 0;
		DECLARE v_present BOOLEAN;
		SELECT COUNT(*), GREATEST(v_format, COALESCE(MAX(c.format), 0)) INTO v_total, v_newest FROM holdfast_claims c
			WHERE c.prefix = p_prefix AND c.name = p_name;
		IF v_newest > p_format THEN -- only newer programs know what leaving means there
			SET v_problem = 'format';
		ELSE
			IF p_ticket > 0 THEN
				DELETE FROM holdfast_claims
					WHERE prefix = p_prefix AND name = p_name AND seat IN (0, p_ticket) AND id = p_id;
				SET v_left = ROW_COUNT();
			ELSE
				DELETE FROM holdfast_claims WHERE prefix = p_prefix AND name = p_name AND id = p_id;
				SET v_left = ROW_COUNT();
				IF v_left = 0 THEN
					INSERT INTO holdfast_tombstones (id, prefix, name, deadline) VALUES (p_id, p_prefix, p_name, v_now + p_ttl)
						ON DUPLICATE KEY UPDATE deadline = v_now + p_ttl;
				END IF;
			END IF;
			IF v_total > v_left THEN
				CALL holdfast_tidy(p_format, p_prefix, p_name, '', v_now,
					v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
			END IF;
		END IF;
		COMMIT AND NO CHAIN NO RELEASE;
		SELECT 0 AS i, '' AS state, 0 AS ticket, -1 AS ahead, 0 AS opens, v_problem AS problem, '' AS place;
	END;
END //

-- transfer gives the held claim p_from the ID p_to and a new life, unless there is a tombstone for p_to. If p_to is in
-- the queue, the call is a repetition, and only sets the life. Without p_turn and p_details those of the claim stay, as
-- for one that is detached from its client.
DROP PROCEDURE IF EXISTS holdfast_transfer //
CREATE PROCEDURE holdfast_transfer(p_format INT, p_slot INT, p_prefix VARBINARY(512), p_name VARBINARY(512),
	p_from VARBINARY(64), p_to VARBINARY(64), p_ttl BIGINT, p_grace BIGINT, p_inbox VARBINARY(64), p_waits MEDIUMBLOB,
	p_turn INT, p_details MEDIUMBLOB)
	MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
	DECLARE v_problem, v_kind VARBINARY(16) DEFAULT '';
	DECLARE v_id VARBINARY(64) DEFAULT p_to;
	DECLARE v_now, v_used, v_earliest, v_buried BIGINT;
	DECLARE v_ticket BIGINT DEFAULT 0;
	DECLARE v_format, v_total, v_held, v_capacity, v_newest INT DEFAULT 0;
	DECLARE v_present BOOLEAN;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	CALL holdfast_begin(p_slot, v_format, v_now);
	IF v_format <= p_format THEN
		CALL holdfast_tidy(p_format, p_prefix, p_name, p_to, v_now,
			v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
	END IF;
	IF GREATEST(v_format, v_newest) > p_format THEN
		SET v_problem = 'format';
	ELSE
		SELECT COALESCE(MAX(b.deadline), 0) INTO v_buried FROM holdfast_tombstones b WHERE b.id = p_to;
		IF NOT v_present AND v_buried <= v_now THEN
			SET v_id = p_from;
		END IF;
		SELECT COALESCE(MAX(c.ticket), 0) INTO v_ticket FROM holdfast_claims c
			WHERE c.prefix = p_prefix AND c.name = p_name AND c.id = v_id AND c.state = 'held';
		UPDATE holdfast_claims c SET c.id = p_to, c.deadline = v_now + p_ttl + p_grace, c.ttl = p_ttl, c.grace = p_grace,
				c.inbox = p_inbox, c.waits = CONVERT(p_waits USING utf8mb4), c.turn = COALESCE(p_turn, c.turn),
				c.details = COALESCE(CONVERT(p_details USING utf8mb4), c.details)
			WHERE c.prefix = p_prefix AND c.name = p_name AND c.seat IN (0, v_ticket) AND c.ticket = v_ticket AND c.id = v_id
				AND (v_id <> p_to OR c.deadline < v_now + p_ttl + p_grace);
	END IF;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT 0 AS i, IF(v_ticket > 0, 'held', '') AS state, v_ticket AS ticket, -1 AS ahead, 0 AS opens,
		v_problem AS problem, '' AS place;
END //

DROP PROCEDURE IF EXISTS holdfast_break //
CREATE PROCEDURE holdfast_break(p_format INT, p_slot INT, p_prefix VARBINARY(512), p_name VARBINARY(512),
	p_ticket BIGINT)
	MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
	DECLARE v_problem, v_kind VARBINARY(16) DEFAULT '';
	DECLARE v_now, v_used, v_earliest BIGINT;
	DECLARE v_format, v_total, v_held, v_capacity, v_newest INT DEFAULT 0;
	DECLARE v_present BOOLEAN;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	CALL holdfast_begin(p_slot, v_format, v_now);
	IF v_format <= p_format THEN
		CALL holdfast_tidy(p_format, p_prefix, p_name, '', v_now,
			v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
	END IF;
	IF GREATEST(v_format, v_newest) > p_format THEN
		SET v_problem = 'format';
	ELSE
		DELETE FROM holdfast_claims
			WHERE prefix = p_prefix AND name = p_name AND seat IN (0, p_ticket) AND ticket = p_ticket;
		IF ROW_COUNT() = 0 THEN
			SET v_problem = 'not held';
		ELSE
			CALL holdfast_tidy(p_format, p_prefix, p_name, '', v_now,
				v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
		END IF;
	END IF;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT 0 AS i, '' AS state, 0 AS ticket, -1 AS ahead, 0 AS opens, v_problem AS problem, '' AS place;
END //

-- tend tidies a queue.
DROP PROCEDURE IF EXISTS holdfast_tend //
CREATE PROCEDURE holdfast_tend(p_format INT, p_slot INT, p_prefix VARBINARY(512), p_name VARBINARY(512))
	MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
	DECLARE v_kind VARBINARY(16);
	DECLARE v_now, v_used, v_earliest BIGINT;
	DECLARE v_format, v_total, v_held, v_capacity, v_newest INT DEFAULT 0;
	DECLARE v_present BOOLEAN;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	CALL holdfast_begin(p_slot, v_format, v_now);
	IF v_format <= p_format THEN
		CALL holdfast_tidy(p_format, p_prefix, p_name, '', v_now,
			v_total, v_held, v_used, v_earliest, v_kind, v_capacity, v_newest, v_present);
	END IF;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT 0 AS i, '' AS state, 0 AS ticket, v_total AS ahead, 0 AS opens,
		IF(GREATEST(v_format, v_newest) > p_format, 'format', '') AS problem, '' AS place;
END //

-- look reads the state of waiting claims: i, name, id, ticket. If it is thorough, the problem of a claim is 'untidy' if its
-- queue has an expired claim, a claim that fits and was not granted, or one from before the clock was set back.
DROP PROCEDURE IF EXISTS holdfast_look //
CREATE PROCEDURE holdfast_look(p_format INT, p_prefix VARBINARY(512), p_claims LONGBLOB, p_thorough BOOLEAN)
	READS SQL DATA SQL SECURITY INVOKER
BEGIN
	DECLARE v_claims JSON DEFAULT CONVERT(p_claims USING utf8mb4);
	DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
	IF p_thorough THEN
		SELECT r.i, COALESCE(h.state, c.state, '') AS state, COALESCE(h.ticket, c.ticket, 0) AS ticket, -1 AS ahead,
				0 AS opens, COALESCE(t.problem, '') AS problem, '' AS place
			FROM JSON_TABLE(v_claims, '$[*]' COLUMNS (i INT PATH '$.i', name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name',
				id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', ticket BIGINT PATH '$.ticket')) r
			LEFT JOIN holdfast_claims h ON h.prefix = p_prefix AND h.name = CAST(r.name AS BINARY) AND h.seat = 0
				AND h.id = r.id
			LEFT JOIN holdfast_claims c ON c.prefix = p_prefix AND c.name = CAST(r.name AS BINARY) AND c.seat = r.ticket
				AND c.id = r.id
			LEFT JOIN (SELECT l.name, CASE WHEN MAX(l.format) > p_format THEN 'format' WHEN MIN(l.deadline) <= v_now
						OR MAX(l.deadline - l.ttl - l.grace) > v_now
						OR SUM(IF(l.state = 'held', l.units, 0)) <= (SELECT w.capacity - w.units FROM holdfast_claims w
							WHERE w.prefix = p_prefix AND w.name = l.name AND w.state = 'waiting' ORDER BY w.seat LIMIT 1)
					THEN 'untidy' END AS problem
				FROM (SELECT DISTINCT CAST(j.name AS BINARY) AS name FROM JSON_TABLE(v_claims, '$[*]'
					COLUMNS (name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name')) j) n
				STRAIGHT_JOIN holdfast_claims l ON l.prefix = p_prefix AND l.name = n.name GROUP BY l.name) t
				ON t.name = CAST(r.name AS BINARY);
	ELSE
		SELECT r.i, COALESCE(h.state, c.state, '') AS state, COALESCE(h.ticket, c.ticket, 0) AS ticket, -1 AS ahead,
				0 AS opens, '' AS problem, '' AS place
			FROM JSON_TABLE(v_claims, '$[*]' COLUMNS (i INT PATH '$.i', name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$.name',
				id VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.id', ticket BIGINT PATH '$.ticket')) r
			LEFT JOIN holdfast_claims h ON h.prefix = p_prefix AND h.name = CAST(r.name AS BINARY) AND h.seat = 0
				AND h.id = r.id
			LEFT JOIN holdfast_claims c ON c.prefix = p_prefix AND c.name = CAST(r.name AS BINARY) AND c.seat = r.ticket
				AND c.id = r.id;
	END IF;
END //

-- expired lists queues that have expired claims, unless a client has done so within the last minute.
DROP PROCEDURE IF EXISTS holdfast_expired //
CREATE PROCEDURE holdfast_expired(p_format INT)
	MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
	DECLARE v_mine BOOLEAN;
	DECLARE v_now BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	SET v_now = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	UPDATE holdfast_meta SET swept = v_now WHERE one = 1 AND (swept < v_now - 60000000 OR swept > v_now);
	SET v_mine = ROW_COUNT() > 0;
	IF v_mine THEN
		DELETE FROM holdfast_tombstones WHERE deadline <= v_now;
	END IF;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT DISTINCT c.slot, c.prefix, c.name FROM holdfast_claims c
		WHERE v_mine AND c.deadline <= v_now AND c.format <= p_format LIMIT 1000;
END //

INSERT INTO holdfast_meta (identity) VALUES (UUID()) ON DUPLICATE KEY UPDATE one = 1 //

-- Last: clients take the schema for complete once there are slots of this format, and programs of an earlier format
-- refuse it from then on.
INSERT IGNORE INTO holdfast_slots (slot, mark, format)
	WITH RECURSIVE numbers (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM numbers WHERE slot < 255)
	SELECT slot, 0, 2 FROM numbers //

UPDATE holdfast_slots SET format = 2 WHERE format < 2 //

DELIMITER ;
