"""Drives examples/python/duetime.py by the protocol of doc.go.

    adapter.py FOLDER HOST PORT SCHEMA: the folder of duetime.py, and a schema of root's without a password
"""

import json
import sys
import uuid

sys.path.insert(0, sys.argv[1])

import duetime  # noqa: E402
import pymysql  # noqa: E402

KIND = "contract.effect"


def say(**answer):
    print(json.dumps(answer), flush=True)


def stop(request, point):
    if point in request.get("stops", []):
        request["stops"].remove(point)  # a transaction that begins anew goes on
        say(at=point)
        sys.stdin.readline()


def effect_of(request):
    def effect(cursor, task, payload):
        stop(request, "begin")
        cursor.execute("INSERT INTO contract_effects (task) VALUES (%s)", task["id"])
        try:
            cursor.execute("UPDATE contract_totals SET n = n + 1 WHERE owner = %s", task["owner"])
        except pymysql.MySQLError:
            if not request.get("careless"):
                raise
        if "due" in request:
            duetime.move(cursor, uuid.UUID(bytes=task["id"]), request["due"])
        stop(request, "end")
        if "fail" in request:
            raise RuntimeError(request["fail"])
    return effect


class Adapter:
    def __init__(self, db):
        self.db, self.looks = db, {}

    def schedule(self, r, id):
        def do(cursor):
            made = duetime.schedule(cursor, KIND, r["owner"], r["queue"], r["due"], r["payload"], key=r.get("key"), id=id)
            stop(r, "written")
            return "yes" if made else "taken"
        return duetime.in_transaction(self.db, do)

    def move(self, r, id):
        return self.change(r, lambda cursor: duetime.move(cursor, id, r["due"], r.get("version")))

    def cancel(self, r, id):
        return self.change(r, lambda cursor: duetime.cancel(cursor, id, r.get("version")))

    def change(self, r, change):
        def do(cursor):
            change(cursor)
            stop(r, "written")
            return "yes"
        try:
            return duetime.in_transaction(self.db, do)
        except duetime.Refused as refused:
            return str(refused)
        except pymysql.OperationalError as problem:
            if duetime.error_code(problem) != duetime.ER.LOCK_WAIT_TIMEOUT:
                raise
            return "locked"

    def settle(self, r, id):
        return duetime.settle(self.db, id, {KIND: effect_of(r)})

    def look(self, r, _):
        look = self.looks.setdefault(r["queue"], duetime.Look(r["queue"], [KIND]))
        return ",".join(str(id) for id in look(self.db))


def main(host, port, schema):
    adapter = Adapter(duetime.connect(host=host, port=int(port), user="root", database=schema))
    for line in sys.stdin:
        request = json.loads(line)
        id = uuid.UUID(request["id"]) if "id" in request else None
        say(answer=getattr(adapter, request["do"])(request, id))


main(*sys.argv[2:])
