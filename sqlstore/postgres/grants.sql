-- The least privileges of a user that does not create the tables of Holdfast. Run it in their database, after
-- `holdfast schema postgres`, with the user's name in place of app.
GRANT USAGE ON SCHEMA holdfast TO app;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.claims TO app;
GRANT SELECT, INSERT, DELETE ON holdfast.tombstones TO app;
GRANT SELECT, UPDATE ON holdfast.slots, holdfast.meta TO app;
