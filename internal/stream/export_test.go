package stream

// Append puts a message past the codec.
func (l *Local) Append(topic string, value []byte) error { return l.append(topic, nil, value, "") }
