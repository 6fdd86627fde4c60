package stream

// Append appends a message without encoding.
func (l *Local) Append(topic string, value []byte) error { return l.append(topic, nil, value, "") }
