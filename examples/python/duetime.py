"""Tasks of duetime by plain SQL: docs/SQL-CONTRACT.md, contract 1.

schedule, move and cancel run in the caller's transaction, settle runs an effect and the end of its task in one. Times are Unix
milliseconds of MySQL's clock. A task is a row of duetime_tasks, as a dict.
"""

import base64
import json
import random
import secrets
import time
import uuid

import pymysql
from pymysql.constants import ER

MIGRATIONS = range(11, 1000)  # contract 1
NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
STATES = ("pending", "done", "cancelled", "dead")
DONE, CANCELLED, DEAD = 1, 2, 3

# The task of a recurrence: whoever ends it must make the next one, which duetime does.
IS_TICK = "COALESCE(LEFT(dedup_key, 1) = 'r', FALSE)"
# The end of a task frees its key, unless the key holds for the row's life.
FREED = "IF(LEFT(dedup_key, 1) = 'k', NULL, dedup_key)"


class Refused(Exception):
    """A task can't be changed. The text says why: done, cancelled, dead, missing, stale or recurring."""


def connect(**server):
    """Opens a connection. Its transactions see what others commit, and wait at most 2 s for a lock."""
    db = pymysql.connect(charset="utf8mb4", cursorclass=pymysql.cursors.DictCursor, **server)
    with db.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("SET innodb_lock_wait_timeout = 2, wait_timeout = 30")
        cursor.execute("SELECT MAX(version_id) AS newest FROM duetime_migrations")
        newest = cursor.fetchone()["newest"]
    db.rollback()
    if newest not in MIGRATIONS:
        raise RuntimeError(f"duetime's tables are of migration {newest}, and contract 1 is of 11 to 999")
    return db


def in_transaction(db, do, tries=5):
    """Runs do(cursor) in a transaction. After a deadlock, which has rolled it back, do runs once more in a new one."""
    for left in reversed(range(tries)):
        db.begin()
        try:
            with db.cursor() as cursor:
                result = do(cursor)
            db.commit()
            return result
        except BaseException as problem:
            db.rollback()
            if not left or error_code(problem) != ER.LOCK_DEADLOCK:
                raise
        time.sleep(random.uniform(0, 0.05))


def error_code(problem):
    return problem.args[0] if isinstance(problem, pymysql.MySQLError) and problem.args else None


def now(cursor):
    """Returns MySQL's time."""
    cursor.execute(f"SELECT {NOW} AS now")
    return cursor.fetchone()["now"]


def new_id():
    """Makes a UUIDv7, whose rows come at the end of the table."""
    ms = time.time_ns() // 1_000_000
    return uuid.UUID(int=ms << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62))


def schedule(cursor, kind, owner, queue, due, payload, key=None, id=None):
    """Makes a task and returns its id; None if a pending task of the owner and kind has the key."""
    id = id or new_id()
    try:
        cursor.execute(f"""
            INSERT INTO duetime_tasks
              (id, kind, owner, queue, shard, due_at, run_at, dedup_key, payload, created_at, updated_at)
            SELECT %(id)s, %(kind)s, %(owner)s, %(queue)s, CRC32(%(owner)s) MOD shards, %(due)s, %(due)s, %(key)s, %(payload)s,
              {NOW}, {NOW}
            FROM duetime_layout""",
            {"id": id.bytes, "kind": kind, "owner": owner, "queue": queue, "due": due, "key": key and "k" + key,
             "payload": json.dumps(payload)})
    except pymysql.IntegrityError:
        cursor.execute("SELECT 1 FROM duetime_tasks WHERE id = %s", id.bytes)
        return id if cursor.fetchone() else None  # there already: an earlier try has committed
    return id


def move(cursor, id, due, version=None):
    """Sets another due time. With a version, only if the row still has it."""
    change(cursor, id, version, f"due_at = GREATEST(%s, {NOW}), run_at = GREATEST(%s, {NOW})", due, due)


def cancel(cursor, id, version=None):
    """Ends a pending task: its effect never takes place. With a version, only if the row still has it."""
    change(cursor, id, version, f"state = {CANCELLED}, finished_at = {NOW}, dedup_key = {FREED}")


def change(cursor, id, version, changes, *values):
    """Changes a pending task in one statement, which locks the row and checks it."""
    if update(cursor, id, f"version = COALESCE(%s, version) AND NOT {IS_TICK}", (version,), changes, values):
        return
    cursor.execute(f"SELECT state, {IS_TICK} AS is_tick FROM duetime_tasks WHERE id = %s", id.bytes)
    row = cursor.fetchone()
    if not row:
        raise Refused("missing")
    if row["state"]:
        raise Refused(STATES[row["state"]])
    raise Refused("recurring" if row["is_tick"] else "stale")


def update(cursor, id, condition, wanted, changes, values):
    """Is a transition: it raises the version. False if the row is not as wanted."""
    return cursor.execute(f"""
        UPDATE duetime_tasks SET version = version + 1, updated_at = {NOW}, {changes}
        WHERE id = %s AND state = 0 AND {condition}""", (*values, id.bytes, *wanted))


def settle(db, id, effects):
    """Runs effects[kind](cursor, task, payload) if the task is due, and ends the task in the same transaction.

    An effect must not commit. Returns what became of the task: done, moved (by its effect), failed, dead, locked (nothing is
    charged, and a later look finds the task), or left (ended, early, not ours).
    """
    try:
        return in_transaction(db, lambda cursor: settle_in(cursor, id, effects))
    except pymysql.OperationalError as problem:
        if error_code(problem) not in (ER.LOCK_WAIT_TIMEOUT, ER.SP_DOES_NOT_EXIST):
            raise
        return "locked"  # what the effect wanted is, or its transaction was lost


def settle_in(cursor, id, effects):
    cursor.execute(f"""
        SELECT *, state = 0 AND due_at <= {NOW} AND run_at <= {NOW} AND NOT {IS_TICK} AS due
        FROM duetime_tasks WHERE id = %s FOR UPDATE SKIP LOCKED""", id.bytes)
    task = cursor.fetchone()
    if not task:
        return "locked"  # or purged
    if not task["due"] or task["kind"] not in effects:
        return "left"
    cursor.execute("SAVEPOINT effect")
    try:
        effects[task["kind"]](cursor, task, json.loads(task["payload"]))
    except Exception as problem:
        if error_code(problem) == ER.LOCK_WAIT_TIMEOUT:
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT effect")  # fails if MySQL has rolled back everything: then nothing is charged
        return charge(cursor, task, problem)
    cursor.execute("RELEASE SAVEPOINT effect")  # fails if the effect hides that MySQL has rolled back everything
    if transit(cursor, task, f"state = {DONE}, finished_at = {NOW}, dedup_key = {FREED}"):
        return "done"
    return "moved"


def charge(cursor, task, problem):
    """Counts a failed attempt: the task is tried again later, or is dead after its last attempt."""
    attempt = task["attempt"] + 1
    counted = "attempt = %s, last_error = %s"
    values = [attempt, f"{type(problem).__name__}: {problem}"[:1024]]
    if attempt < task["max_attempts"]:
        delay = random.randint(1, min(1000 * 2 ** (attempt - 1), 600_000))
        transit(cursor, task, f"{counted}, run_at = {NOW} + %s", *values, delay)
        return "failed"
    rests = "d" + base64.urlsafe_b64encode(task["id"]).decode().rstrip("=")  # by which a retry finds the key again
    transit(cursor, task, f"""{counted}, state = {DEAD}, finished_at = {NOW},
        dedup_key = IF(LEFT(dedup_key, 1) = 'k', CONCAT(%s, SUBSTR(dedup_key, 2)), dedup_key)""", *values, rests)
    return "dead"


def transit(cursor, task, changes, *values):
    """Changes a task that this transaction has locked. False if its effect has changed it since."""
    return update(cursor, uuid.UUID(bytes=task["id"]), "version = %s", (task["version"],), changes, values)


class Look:
    """Finds due tasks of some kinds in a queue.

    The index has all queues together, so a look reads a bounded page of what became due lately, and one of what is older; the
    next look goes on behind that one. So tasks that wait in another queue, however many, hide none of this one for long.
    """

    PAGE, LATELY = 1000, 10_000
    BEGINNING = (-2**63, b"")

    def __init__(self, queue, kinds):
        self.queue, self.kinds, self.after = queue, list(kinds), self.BEGINNING

    def __call__(self, db):
        return in_transaction(db, self.ids)

    def ids(self, cursor):
        cursor.execute(f"SELECT {NOW} AS now, EXISTS (SELECT 1 FROM duetime_requests WHERE name = %s) AS paused",
                       "pause:" + self.queue)
        clock = cursor.fetchone()
        if clock["paused"]:
            return []
        border = clock["now"] - self.LATELY
        rows = self.page(cursor, (border, b"\xff" * 16), clock["now"])
        older = self.page(cursor, self.after, border)
        full = len(older) == self.PAGE
        self.after = (older[-1]["run_at"], older[-1]["id"]) if full else self.BEGINNING
        ids = [uuid.UUID(bytes=row["id"]) for row in older + rows if row["ours"]]
        random.shuffle(ids)  # workers that look at the same moment begin with different tasks
        return ids

    def page(self, cursor, after, until):
        cursor.execute("""
            SELECT t.id, t.run_at, t.queue = %s AND t.kind IN %s AS ours
            FROM (SELECT id FROM duetime_tasks FORCE INDEX (duetime_tasks_due)
                  WHERE state = 0 AND (run_at = %s AND id > %s OR run_at > %s) AND run_at <= %s
                  ORDER BY run_at, id LIMIT %s) AS page
            JOIN duetime_tasks AS t ON t.id = page.id ORDER BY t.run_at, t.id""",
            (self.queue, self.kinds, *after, after[0], until, self.PAGE))
        return list(cursor.fetchall())
