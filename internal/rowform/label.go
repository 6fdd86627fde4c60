package rowform

// GroupLabel is the label that each member of a group has: its value is the group's name. No spec can give it.
const GroupLabel = "duetime.group"
