-- What each process may do, table by table. An administrator runs this after `duetime migrate up`, since rights on a table
-- need the table; it may be repeated.
--
--   SCHEMA=duetime envsubst < deploy/mysql/grants.sql | mysql
--
-- Each long-running process writes a row of its own in duetime_processes, and deletes those of processes that crashed.
--
-- Who schedules into a queue of `duetime queue add` locks its row of duetime_requests. MySQL before 8.0.22 wants one of the rights UPDATE
-- and DELETE for that, beside SELECT: give it to duetime_game and duetime_worker there, if you add queues.
--
-- Nobody updates or deletes a line of the history, but for the daemon, which deletes what is past its retention.

-- event: elections. It reads no task.
GRANT SELECT ON `${SCHEMA}`.duetime_layout TO duetime_event@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_migrations TO duetime_event@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_processes TO duetime_event@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_epochs TO duetime_event@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_requests TO duetime_event@'%';

-- daemon: elections, sweeps, rows that go to another shard, operations on many tasks, the next task of a recurrence that was left
-- behind, what is left of blocked owners (it locks their rows, which wants DELETE), and the end of pauses, of what is past its retention, and
-- of what is left of queues that nobody uses; the
-- witness (daemon.witness) schedules tasks and a recurrence. (UPDATE of tasks is of the whole table, as an INSERT with ON DUPLICATE KEY UPDATE wants it for every
-- column that it inserts.)
GRANT SELECT, UPDATE (shards_from, moved, to_move, horizon_ms, partial) ON `${SCHEMA}`.duetime_layout TO duetime_daemon@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_migrations TO duetime_daemon@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_processes TO duetime_daemon@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_epochs TO duetime_daemon@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_tasks TO duetime_daemon@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_ended TO duetime_daemon@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_orders TO duetime_daemon@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_labels TO duetime_daemon@'%';
GRANT SELECT, UPDATE, DELETE ON `${SCHEMA}`.duetime_groups TO duetime_daemon@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_group_parts TO duetime_daemon@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_recurrences TO duetime_daemon@'%';
GRANT SELECT, UPDATE, DELETE ON `${SCHEMA}`.duetime_operations TO duetime_daemon@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_requests TO duetime_daemon@'%';
GRANT SELECT, DELETE ON `${SCHEMA}`.duetime_pauses TO duetime_daemon@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_history TO duetime_daemon@'%';
GRANT SELECT, DELETE ON `${SCHEMA}`.duetime_limits TO duetime_daemon@'%';
GRANT SELECT, DELETE ON `${SCHEMA}`.duetime_blocks TO duetime_daemon@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_witness_plays TO duetime_daemon@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_witness_effects TO duetime_daemon@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_handovers TO duetime_daemon@'%';
-- For the alert DuetimeTransactionOld the daemon has to see other users' transactions. The right shows it their statements too, so it is
-- yours to give:
-- GRANT PROCESS ON *.* TO duetime_daemon@'%';

-- worker: runs tasks, and schedules those that follow from them.
GRANT SELECT ON `${SCHEMA}`.duetime_layout TO duetime_worker@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_migrations TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_processes TO duetime_worker@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_blocks TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_tasks TO duetime_worker@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_ended TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_orders TO duetime_worker@'%';
GRANT SELECT, INSERT ON `${SCHEMA}`.duetime_labels TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_groups TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_group_parts TO duetime_worker@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_pending TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_recurrences TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_operations TO duetime_worker@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_requests TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_pauses TO duetime_worker@'%';
GRANT SELECT, INSERT ON `${SCHEMA}`.duetime_history TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_handovers TO duetime_worker@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_limits TO duetime_worker@'%';

-- game, or any service: schedules, moves and cancels tasks.
GRANT SELECT ON `${SCHEMA}`.duetime_layout TO duetime_game@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_migrations TO duetime_game@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_blocks TO duetime_game@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_tasks TO duetime_game@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_ended TO duetime_game@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_orders TO duetime_game@'%';
GRANT SELECT, INSERT ON `${SCHEMA}`.duetime_labels TO duetime_game@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_groups TO duetime_game@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_group_parts TO duetime_game@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_pending TO duetime_game@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_recurrences TO duetime_game@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_operations TO duetime_game@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_requests TO duetime_game@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_pauses TO duetime_game@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_limits TO duetime_game@'%';
GRANT SELECT, INSERT ON `${SCHEMA}`.duetime_history TO duetime_game@'%';

-- api: schedules, moves, cancels and retries tasks for its callers, makes operations, and adds and retires queues.
GRANT SELECT ON `${SCHEMA}`.duetime_layout TO duetime_api@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_migrations TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_processes TO duetime_api@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_blocks TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_tasks TO duetime_api@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_ended TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_orders TO duetime_api@'%';
GRANT SELECT, INSERT ON `${SCHEMA}`.duetime_labels TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_groups TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_group_parts TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_recurrences TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_operations TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_requests TO duetime_api@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_pauses TO duetime_api@'%';
GRANT SELECT, DELETE ON `${SCHEMA}`.duetime_limits TO duetime_api@'%';
GRANT SELECT, DELETE ON `${SCHEMA}`.duetime_handovers TO duetime_api@'%';
GRANT INSERT ON `${SCHEMA}`.duetime_history TO duetime_api@'%';

-- operator: the tool duetime, but for migrate. It looks at everything, asks the processes for things, and changes tasks. It
-- inserts those that a recurrence makes, and followers of groups: a task that is cancelled, or a recurrence that is resumed, makes the
-- next one.
GRANT SELECT, UPDATE (shards, shards_ever, shards_from, generation, paused, moved, to_move)
  ON `${SCHEMA}`.duetime_layout TO duetime_operator@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_migrations TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_processes TO duetime_operator@'%';
GRANT SELECT, INSERT, DELETE ON `${SCHEMA}`.duetime_blocks TO duetime_operator@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_epochs TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_tasks TO duetime_operator@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_ended TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_orders TO duetime_operator@'%';
GRANT SELECT, INSERT ON `${SCHEMA}`.duetime_labels TO duetime_operator@'%';
GRANT SELECT, UPDATE ON `${SCHEMA}`.duetime_groups TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_group_parts TO duetime_operator@'%';
GRANT SELECT, UPDATE ON `${SCHEMA}`.duetime_recurrences TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE ON `${SCHEMA}`.duetime_operations TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_requests TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_pauses TO duetime_operator@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.duetime_limits TO duetime_operator@'%';
GRANT SELECT, DELETE ON `${SCHEMA}`.duetime_handovers TO duetime_operator@'%';
GRANT SELECT, INSERT ON `${SCHEMA}`.duetime_history TO duetime_operator@'%';
GRANT SELECT ON `${SCHEMA}`.duetime_witness_plays TO duetime_operator@'%';

-- The game's own tables, which it makes itself; a service of yours has others in their place. CREATE of these very names
-- is there because a right on a table that doesn't stand yet has to include it.
GRANT CREATE, SELECT, INSERT, UPDATE ON `${SCHEMA}`.pets TO duetime_game@'%';
GRANT CREATE, SELECT, INSERT ON `${SCHEMA}`.pet_journal TO duetime_game@'%';
GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `${SCHEMA}`.pet_requests TO duetime_game@'%';
GRANT CREATE, SELECT, UPDATE ON `${SCHEMA}`.pets TO duetime_worker@'%';
GRANT CREATE, SELECT, INSERT ON `${SCHEMA}`.pet_journal TO duetime_worker@'%';
GRANT CREATE, SELECT ON `${SCHEMA}`.pet_journal TO duetime_operator@'%';
