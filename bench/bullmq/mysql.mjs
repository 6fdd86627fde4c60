// The effects' database: the statements of bench/queue/effects.go and bench/driver/rows.go.
import mysql from 'mysql2/promise';

// openPool opens as many connections as there are handlers, at the address that a DSN of go-sql-driver/mysql names.
export function openPool(dsn, connections) {
  const parts = /^(?:([^:@]*)(?::([^@]*))?@)?tcp\((.+):(\d+)\)\/([^?]*)/.exec(dsn);
  if (!parts) throw new Error(`unknown form of DSN: ${dsn}`);
  const [, user, password, host, port, database] = parts;
  return mysql.createPool({ host, port: Number(port), user, password, database, connectionLimit: connections });
}

// insertRows writes the durable rows of jobs in one statement.
export async function insertRows(pool, jobs) {
  const rows = jobs.map((job) => [job.id, Math.floor(job.due / 1000)]);
  await pool.query('INSERT INTO bench_tasks (id, due_at) VALUES ?', [rows]);
}

// feed is the effect: mark the job's row done and feed its pet, in one transaction. Prepared statements are what the
// driver recommends; each connection prepares them once.
export async function feed(pool, id) {
  const connection = await pool.getConnection();
  try {
    await connection.beginTransaction();
    await connection.execute('UPDATE bench_tasks SET state = 1 WHERE id = ?', [id]);
    await connection.execute('UPDATE bench_pets SET meals = meals + 1 WHERE id = ?', [id]);
    await connection.commit();
  } catch (err) {
    await connection.rollback().catch(() => {}); // the first error is the one to tell
    throw err;
  } finally {
    connection.release();
  }
}
