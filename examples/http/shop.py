"""A shop that knows duetime by HTTP alone: it schedules through the API, and gets due tasks as signed requests.

    /usr/bin/python3 shop.py play    # places four orders and shows what becomes of them
    /usr/bin/python3 shop.py serve   # takes what is due, for ever

SHOP_API (http://127.0.0.1:8091), SHOP_TOKEN (none), SHOP_SECRET (whsec_…), SHOP_LISTEN (127.0.0.1:8092), SHOP_DB (shop.db).
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import sqlite3
import sys
import threading
import time
import urllib.error
import urllib.request

KIND, QUEUE = "shop.order", "push"
DB = os.environ.get("SHOP_DB", "shop.db")


class Refused(Exception):
    """No repetition helps. The reason is one of docs/API.md, or the code, or the order's own state."""

    def __init__(self, reason, text):
        super().__init__(text)
        self.reason = reason


def call(method, body, service="TaskService"):
    """Calls a service, for as long as it takes until it answers: so a call must be one that can be repeated."""
    request = urllib.request.Request(
        os.environ.get("SHOP_API", "http://127.0.0.1:8091") + f"/duetime.v1.{service}/{method}", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("SHOP_TOKEN", "none")})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=15) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                said = json.load(error)
                reasons = [d["debug"]["reason"] for d in said.get("details", []) if "reason" in d.get("debug", {})]
                raise Refused((reasons or [said["code"]])[0], said.get("message")) from None
        except OSError:
            pass
        time.sleep(0.5)


def connect():
    db = sqlite3.connect(DB, timeout=30)
    db.row_factory = sqlite3.Row
    db.execute("""CREATE TABLE IF NOT EXISTS orders
        (id INTEGER PRIMARY KEY, state TEXT NOT NULL, pay_within INTEGER NOT NULL, task TEXT, expired INTEGER NOT NULL DEFAULT 0)""")
    db.execute("CREATE TABLE IF NOT EXISTS received (id TEXT PRIMARY KEY)")
    return db


def place(db, pay_within):
    """Commits an order, then schedules its end. The shop may die in between: schedule_missing then does it."""
    with db:
        order = db.execute("INSERT INTO orders (state, pay_within) VALUES ('open', ?)", (pay_within,)).lastrowid
    schedule_missing(db)
    return order


def schedule_missing(db):
    """Schedules the ends of orders that have none. The key makes a repeated call find the task of the first one."""
    for order in db.execute("SELECT id, pay_within FROM orders WHERE task IS NULL").fetchall():
        made = call("Schedule", {"task": {
            "kind": KIND, "queue": QUEUE, "owner": f"order-{order['id']}", "payload": {"order": order["id"]},
            "dueIn": f"{order['pay_within']}s", "idempotencyKey": f"order-{order['id']}"}})
        with db:
            db.execute("UPDATE orders SET task = ? WHERE id = ?", (made["task"]["taskId"], order["id"]))


def task_of(db, order):
    return db.execute("SELECT task FROM orders WHERE id = ?", (order,)).fetchone()["task"]


def read(db, order):
    """Reads an order's state as it is at this moment: if its time to pay is over, the order has expired before, or a worker is away."""
    call("AwaitDue", {"owner": f"order-{order}", "kind": KIND, "timeout": "2s"}, "OwnerService")
    return db.execute("SELECT state FROM orders WHERE id = ?", (order,)).fetchone()["state"]


def refuse_ended(db, order, allowed):
    """Raises Refused unless the order's state is the allowed one."""
    state = db.execute("SELECT state FROM orders WHERE id = ?", (order,)).fetchone()["state"]
    if state != allowed:
        raise Refused("ORDER_" + state.upper(), f"order {order} is {state}")


def extend(db, order, pay_within):
    """Gives a customer so many seconds from now; raises Refused if the order has ended, as pay does."""
    call("Reschedule", {"taskId": task_of(db, order), "dueIn": f"{pay_within}s"})
    refuse_ended(db, order, "open")


def pay(db, order):
    """Takes a payment; raises Refused if it is too late. The order's own state decides: if the answer to a request was lost,
    the order has expired, and its task still waits for another try and can be cancelled."""
    try:
        call("Cancel", {"taskId": task_of(db, order)})
    except Refused as refused:
        if refused.reason != "ALREADY_CANCELLED":  # by this call, whose answer was lost
            raise
    with db:
        paid = db.execute("UPDATE orders SET state = 'paid' WHERE id = ? AND state = 'open'", (order,)).rowcount
    if not paid:
        refuse_ended(db, order, "paid")  # by an earlier call


def verify(secret, headers, body):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return fresh and any(hmac.compare_digest(want, got) for got in headers["webhook-signature"].split())


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Takes due tasks. The same id may come again, and has its effect once: both are written together."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            genuine = verify(os.environ["SHOP_SECRET"], self.headers, body)
        except (TypeError, ValueError, AttributeError):  # a header is not there, or is no number
            genuine = False
        if genuine:
            db = connect()
            with db:
                if db.execute("INSERT OR IGNORE INTO received VALUES (?)", (self.headers["webhook-id"],)).rowcount:
                    db.execute("UPDATE orders SET state = 'expired', expired = expired + 1 WHERE id = ? AND state = 'open'",
                               (json.loads(body)["order"],))
            db.close()
        self.send_response(204 if genuine else 401)
        self.end_headers()

    def log_message(self, *args):
        pass


def play(db):
    paid, extended, late, other = (place(db, 2) for _ in range(4))
    extend(db, extended, 3)
    pay(db, paid)
    while db.execute("SELECT COUNT(*) FROM orders WHERE state = 'open'").fetchone()[0]:
        time.sleep(0.1)
    for order in (late, other):
        try:
            pay(db, order)
        except Refused as refused:
            print(f"order {order} is paid too late: {refused.reason}")
    for order in (paid, extended, late, other):
        print(f"order {order}: {read(db, order)}")


def main(verb):
    host, port = os.environ.get("SHOP_LISTEN", "127.0.0.1:8092").rsplit(":", 1)
    server = http.server.ThreadingHTTPServer((host, int(port)), Endpoint)
    print("listening on {}:{}".format(*server.server_address), file=sys.stderr, flush=True)
    db = connect()
    schedule_missing(db)
    if verb == "serve":
        server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    play(db)


if __name__ == "__main__":
    main(*sys.argv[1:])
