package store

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// rows is one result of a guarded connection.
type rows struct {
	driver.Rows
	conn        *conn
	checksState bool // the first row begins with the server's state
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == io.EOF { //nolint:errorlint // the driver interface wants exactly io.EOF
		return err
	}
	if err == nil && r.checksState {
		r.checksState = false
		if err = (writable{}).Scan(dest[0]); err != nil {
			r.conn.retirePool()
		}
	}
	return r.conn.record(err)
}

// Close reads the unread rows, and may then find that the transaction was lost.
func (r *rows) Close() error { return r.conn.record(r.Rows.Close()) }

func (r *rows) HasNextResultSet() bool {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	err := n.NextResultSet()
	if err == io.EOF { //nolint:errorlint // the driver interface wants exactly io.EOF
		return err
	}
	return r.conn.record(err)
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if c, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return c.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if c, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return c.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return c.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return c.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return c.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
