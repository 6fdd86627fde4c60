"""A shop whose unpaid orders expire: an order schedules its end, more time moves it, a payment cancels it.

    /usr/bin/python3 shop.py mysql://root@127.0.0.1:3306/duetime play   # places five orders and shows what becomes of them
    /usr/bin/python3 shop.py mysql://root@127.0.0.1:3306/duetime work   # settles what is due, for ever; start several
"""

import sys
import time
import urllib.parse
import uuid

import duetime

QUEUE, EXPIRE = "shop", "order.expire"
SECOND = 1000


def place(db, order, customer, pay_within=600 * SECOND):
    """Commits an order together with the task that ends it."""
    def do(cursor):
        due = duetime.now(cursor) + pay_within
        task = duetime.schedule(cursor, EXPIRE, customer, QUEUE, due, {"order": order})
        cursor.execute("INSERT INTO orders (id, customer, state, task) VALUES (%s, %s, 'open', %s)",
                       (order, customer, task.bytes))
    duetime.in_transaction(db, do)


def extend(db, order, until):
    """Gives a customer more time; raises duetime.Refused if the order has ended."""
    duetime.in_transaction(db, lambda cursor: duetime.move(cursor, task_of(cursor, order), until))


def pay(db, order):
    """Takes a payment; raises duetime.Refused if it is too late. The task is locked first, as in a worker, then the order."""
    def do(cursor):
        duetime.cancel(cursor, task_of(cursor, order))
        cursor.execute("UPDATE orders SET state = 'paid' WHERE id = %s", order)
    duetime.in_transaction(db, do)


def task_of(cursor, order):
    cursor.execute("SELECT task FROM orders WHERE id = %s", order)
    return uuid.UUID(bytes=cursor.fetchone()["task"])


def expire(cursor, task, payload):
    """The effect: it takes place with the end of its task, or not at all."""
    cursor.execute("UPDATE orders SET state = 'expired', expired = expired + 1 WHERE id = %s", payload["order"])


def work(db, going_on):
    look, effects = duetime.Look(QUEUE, [EXPIRE]), {EXPIRE: expire}
    while going_on():
        for id in look(db):
            duetime.settle(db, id, effects)
        time.sleep(0.1)


def play(db):
    first = duetime.in_transaction(db, duetime.now)  # another range of numbers each time
    for i in range(5):
        place(db, first + i, f"customer-{i}", 2 * SECOND)
    pay(db, first)
    extend(db, first + 1, first + 4 * SECOND)
    work(db, lambda: open_orders(db, first))
    try:
        pay(db, first + 2)
    except duetime.Refused as refused:
        print(f"order 2 is paid too late: its task is {refused}")
    for row in orders(db, first):
        print(f"order {row['id'] - first} of {row['customer']}: {row['state']}")


def orders(db, first):
    def do(cursor):
        cursor.execute("SELECT id, customer, state FROM orders WHERE id BETWEEN %s AND %s ORDER BY id", (first, first + 4))
        return cursor.fetchall()
    return duetime.in_transaction(db, do)


def open_orders(db, first):
    return any(row["state"] == "open" for row in orders(db, first))


def main(url, verb):
    at = urllib.parse.urlparse(url)
    db = duetime.connect(host=at.hostname, port=at.port or 3306, user=at.username,
                         password=urllib.parse.unquote(at.password or ""), database=at.path.strip("/"))
    with db.cursor() as cursor:
        cursor.execute("""CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY, customer VARCHAR(64) NOT NULL,
            state VARCHAR(16) NOT NULL, expired INT NOT NULL DEFAULT 0, task BINARY(16) NOT NULL)""")
    play(db) if verb == "play" else work(db, lambda: True)


if __name__ == "__main__":
    main(*sys.argv[1:])
