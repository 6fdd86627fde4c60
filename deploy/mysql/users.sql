-- duetime's accounts on MySQL or MariaDB: one for each process, which come in over TLS alone. An administrator runs this
-- once; then `duetime migrate up` runs as duetime_migrate; then an administrator runs grants.sql.
--
--   SCHEMA=duetime EVENT_PASSWORD=… WORKER_PASSWORD=… DAEMON_PASSWORD=… GAME_PASSWORD=… API_PASSWORD=… MIGRATE_PASSWORD=… \
--     OPERATOR_PASSWORD=… envsubst < deploy/mysql/users.sql | mysql
--
-- Passwords hold no quote and no backslash.
CREATE DATABASE IF NOT EXISTS `${SCHEMA}`;
CREATE USER IF NOT EXISTS duetime_event@'%' IDENTIFIED BY '${EVENT_PASSWORD}' REQUIRE SSL;
CREATE USER IF NOT EXISTS duetime_worker@'%' IDENTIFIED BY '${WORKER_PASSWORD}' REQUIRE SSL;
CREATE USER IF NOT EXISTS duetime_daemon@'%' IDENTIFIED BY '${DAEMON_PASSWORD}' REQUIRE SSL;
CREATE USER IF NOT EXISTS duetime_game@'%' IDENTIFIED BY '${GAME_PASSWORD}' REQUIRE SSL;
CREATE USER IF NOT EXISTS duetime_api@'%' IDENTIFIED BY '${API_PASSWORD}' REQUIRE SSL;
CREATE USER IF NOT EXISTS duetime_migrate@'%' IDENTIFIED BY '${MIGRATE_PASSWORD}' REQUIRE SSL;
CREATE USER IF NOT EXISTS duetime_operator@'%' IDENTIFIED BY '${OPERATOR_PASSWORD}' REQUIRE SSL;

-- migrate makes and changes tables and a view, and writes the layout and the list of migrations.
GRANT CREATE, CREATE VIEW, ALTER, INDEX, SELECT, INSERT, UPDATE ON `${SCHEMA}`.* TO duetime_migrate@'%';
