package rowform

// MomentText is how details name a moment.
const MomentText = "2006-01-02T15:04:05.000Z07:00"
