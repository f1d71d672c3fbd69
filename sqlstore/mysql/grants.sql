-- The least privileges of a user that does not create the tables of Holdfast. Run it in their database, after
-- `holdfast schema mysql`, with the user's name in place of 'app'@'%'.
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast_claims TO 'app'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast_tombstones TO 'app'@'%';
GRANT SELECT, UPDATE ON holdfast_slots TO 'app'@'%';
GRANT SELECT, UPDATE ON holdfast_meta TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_begin TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_tidy TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_join TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_keep TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_leave TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_transfer TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_break TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_tend TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_look TO 'app'@'%';
GRANT EXECUTE ON PROCEDURE holdfast_expired TO 'app'@'%';
