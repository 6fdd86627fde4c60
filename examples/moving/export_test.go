package moving

// End is the effect that the old version and the handler share.
var End = end
