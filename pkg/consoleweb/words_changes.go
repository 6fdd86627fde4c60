package consoleweb

// changeWords are the words of questions and answers.
func changeWords() map[string]words {
	return map[string]words{
		"yes":              {"Do it", "执行"},
		"yes.grave":        {"Do it: this can't be taken back", "执行（无法撤销）"},
		"no":               {"No, leave it", "不，保持原样"},
		"by":               {"Move by", "移动多少"},
		"toqueue":          {"To queue", "目标队列"},
		"bulkrate":         {"Tasks a second, at most", "每秒最多任务数"},
		"hint.time":        {"14:00, +2h, -30m, 2026-03-01 14:00, now", "14:00、+2h、-30m、2026-03-01 14:00、now"},
		"hint.by":          {"+2h, -30m, +1d", "+2h、-30m、+1d"},
		"hint.queue":       {"one of the configuration's queues", "配置中的队列之一"},
		"hint.bulkrate":    {"empty: as many as running tasks leave room for", "留空：在不影响执行的前提下尽快"},
		"recurrencestoo":   {"Tasks of recurrences too", "包括周期任务"},
		"hint.recurrences": {"else they stay on their timetables", "否则保持其时间表"},
		"hint.note":        {"why; operators see it", "原因，供运维查看"},
		"hint.rate":        {"200/s, 50/m, 10/h; empty: none; default: as configured", "200/s、50/m、10/h；留空：不限；default：按配置"},
		"hint.concurrency": {"a number; empty: none; default: as configured", "数字；留空：不限；default：按配置"},

		"ask.move":       {"Move this task?", "要改期此任务吗？"},
		"ask.moveto":     {"Move this task to %s (%s)?", "要将此任务改到 %s（%s）吗？"},
		"ask.cancel":     {"Cancel this task? It will not run.", "要取消此任务吗？它将不会执行。"},
		"ask.retry":      {"Retry this dead task? It is due at once, with all its attempts.", "要重试此死亡任务吗？它会立即到期，并重新获得全部尝试次数。"},
		"ask.discard":    {"Discard this dead task? It ends as cancelled.", "要丢弃此死亡任务吗？它将以已取消结束。"},
		"ask.pause":      {"Pause the queue %s? Its tasks wait until it is resumed.", "要暂停队列 %s 吗？其任务会等到恢复。"},
		"ask.resume":     {"Resume the queue %s?", "要恢复队列 %s 吗？"},
		"ask.limit":      {"Limits of the queue %s", "队列 %s 的限制"},
		"ask.resign":     {"Ask the leader of %s to resign?", "要求 %s 的领导者让位吗？"},
		"ask.op.pause":   {"Pause this mass change?", "要暂停此批量操作吗？"},
		"ask.op.resume":  {"Resume this mass change?", "要恢复此批量操作吗？"},
		"ask.op.stop":    {"Stop this mass change?", "要停止此批量操作吗？"},
		"ask.rec.pause":  {"Pause this recurrence? It makes no tasks until it is resumed.", "要暂停此周期任务吗？恢复前不会生成任务。"},
		"ask.rec.resume": {"Resume this recurrence?", "要恢复此周期任务吗？"},
		"ask.rec.stop":   {"Stop this recurrence for good?", "要永久停止此周期任务吗？"},
		"ask.rec.run":    {"Make one more task of this recurrence, due now?", "要立即为此周期任务多生成一个任务吗？"},
		"ask.dead.retry": {
			"Retry %s dead tasks? They are due at once, with all their attempts.",
			"要重试 %s 个死亡任务吗？它们会立即到期，并重新获得全部尝试次数。",
		},
		"ask.dead.discard": {"Discard %s dead tasks? They end as cancelled.", "要丢弃 %s 个死亡任务吗？它们将以已取消结束。"},
		"ask.bulk.shift":   {"By how much shall all matching tasks move?", "所有符合的任务要移动多少？"},
		"ask.bulk.requeue": {"To which queue shall all matching tasks go?", "所有符合的任务要移到哪个队列？"},
		"ask.bulk.count":   {"Change %s tasks: %s?", "要修改 %s 个任务：%s？"},

		"fact.from":    {"It is due at %s now.", "目前到期时间为 %s。"},
		"fact.past":    {"This is past: the task is due at once.", "该时间已过：任务会立即到期。"},
		"fact.workers": {"Workers obey within two seconds.", "工作进程会在两秒内生效。"},
		"fact.limit":   {"They hold over all workers, until an operator sets others.", "限制对全部工作进程有效，直到运维另行设置。"},
		"fact.resign": {
			"Another process takes over; tasks may be late by moments. This waits for the successor for up to 20 s.",
			"另一进程会接任，任务可能略有延迟。最多等待继任者 20 秒。",
		},
		"fact.bulk": {
			"The daemon changes those tasks that match when it comes to them. It can be paused and stopped.",
			"守护进程逐个修改届时仍符合的任务，可随时暂停或停止。",
		},
		"fact.ticks":      {"Tasks of recurrences stay on their timetables.", "周期任务保持其时间表。"},
		"fact.undo":       {"Only tasks that it moved by its whole time, and that nothing has changed since. None moves to before now.", "仅限其按完整时长移动过、且此后未被更改的任务。不会移到当前时间之前。"},
		"fact.sample":     {"%d of them:", "其中 %d 个："},
		"fact.left":       {"%d tasks are left.", "剩余 %d 个任务。"},
		"fact.stays":      {"%d tasks were changed, and stay so.", "已修改 %d 个任务，不会还原。"},
		"fact.recurrence": {"%s of %s", "%s（所有者 %s）"},
		"fact.dead":       {"Kind %s, error: %s", "类型 %s，错误：%s"},
		"fact.deadany":    {"Kind %s, all errors", "类型 %s，全部错误"},
		"fact.since":      {"Those that died since %s.", "自 %s 起死亡的任务。"},
		"fact.retry":      {"They are due at once, with all their attempts.", "它们会立即到期，并重新获得全部尝试次数。"},
		"fact.deadcut":    {"Only as many are changed at once: do it again for the others.", "一次只处理这么多：其余请再次执行。"},
		"fact.timetable":  {"Timetable: %s", "时间表：%s"},
		"fact.kind":       {"Kind %s, queue %s", "类型 %s，队列 %s"},
	}
}

// outcomeWords are the words of what was done.
func outcomeWords() map[string]words {
	return map[string]words{
		"did.move":          {"The task was moved from %s to %s.", "任务已从 %s 改到 %s。"},
		"did.version":       {"Its version is %d.", "版本为 %d。"},
		"did.cancel":        {"The task, due at %s, was cancelled.", "原定 %s 的任务已取消。"},
		"did.retry":         {"The task is pending again, due now.", "任务已恢复为待执行，立即到期。"},
		"did.discard":       {"The task was discarded.", "任务已丢弃。"},
		"did.pause":         {"The queue %s is paused.", "队列 %s 已暂停。"},
		"did.paused":        {"The queue %s was paused before; nothing was changed.", "队列 %s 之前已暂停，未作修改。"},
		"did.resume":        {"The queue %s is resumed.", "队列 %s 已恢复。"},
		"did.resumed":       {"The queue %s was not paused; nothing was changed.", "队列 %s 并未暂停，未作修改。"},
		"did.limit":         {"The limits of the queue %s are set.", "队列 %s 的限制已设置。"},
		"did.resign":        {"The leader of term %d was followed by that of term %d, after %s.", "任期 %d 的领导者已由任期 %d 接替，用时 %s。"},
		"did.owner.block":   {"The owner is blocked. %d tasks were cancelled.", "所有者已封禁，已取消 %d 个任务。"},
		"did.owner.unblock": {"The owner is blocked no more.", "所有者已解封。"},
		"did.op.pause":      {"The mass change is paused. It has changed %d tasks.", "批量操作已暂停，已修改 %d 个任务。"},
		"did.op.resume":     {"The mass change goes on. It has changed %d tasks.", "批量操作继续进行，已修改 %d 个任务。"},
		"did.op.stop":       {"The mass change was stopped. It has changed %d tasks.", "批量操作已停止，已修改 %d 个任务。"},
		"did.bulk":          {"The mass change was begun.", "批量操作已开始。"},
		"did.rec.pause":     {"The recurrence is paused.", "周期任务已暂停。"},
		"did.rec.resume":    {"The recurrence goes on.", "周期任务已恢复。"},
		"did.rec.stop":      {"The recurrence was stopped.", "周期任务已停止。"},
		"did.rec.run":       {"One more task was made, due at %s.", "已多生成一个任务，到期时间 %s。"},
	}
}

// errorWords say why there is no answer, or why nothing was changed.
func errorWords() map[string]words {
	return map[string]words{
		"err.meanwhile": {
			"Somebody changed the task meanwhile, so nothing was changed now. Look at it again.",
			"任务已被他人修改，本次未作更改。请重新查看。",
		},
		"err.done":      {"The task is done already: nothing was changed.", "任务已完成，未作修改。"},
		"err.cancelled": {"The task was cancelled before: nothing was changed.", "任务之前已取消，未作修改。"},
		"err.dead":      {"The task is dead: nothing was changed. It can be retried or discarded.", "任务已死亡，未作修改。可以重试或丢弃。"},
		"err.finished":  {"The task has ended: nothing was changed.", "任务已结束，未作修改。"},
		"err.notdead":   {"The task is pending, not dead: nothing was changed.", "任务待执行，并未死亡，未作修改。"},
		"err.keytaken":  {"Another task has its key by now: nothing was changed.", "其键已被另一任务占用，未作修改。"},
		"err.blocked":   {"The owner is blocked: nothing is scheduled for it.", "所有者已封禁：不再为其安排任务。"},
		"err.running":   {"The task is running right now. Try again in a second.", "任务正在执行，请稍后再试。"},
		"err.formused": {
			"This form has begun another mass change before: nothing was changed. Ask for a new preview.",
			"此表单已开始过另一批量操作，本次未作修改。请重新预览。",
		},
		"err.over":     {"The mass change is over: nothing was changed.", "批量操作已结束，未作修改。"},
		"err.neverled": {"No process has ever led.", "从未有过领导者。"},
		"err.nothing":  {"Nothing matches: nothing was changed.", "没有符合的任务，未作修改。"},
		"err.field":    {"This is outside the limits: %s.", "超出限制：%s。"},
		"err.mistake":  {"This is wrong: %s.", "输入有误：%s。"},
		"err.clause":   {"%s is wrong. %s", "%s 有误。%s"},
		"err.noclause": {
			"Write owner:, kind:, queue:, state:, label:name=value, subject:, due:from..before, run:from..before, id:, -kind:, -label:name=value " +
				"or late, and a value with spaces in quotes.",
			"请写 owner:、kind:、queue:、state:、label:名=值、subject:、due:起..止、run:起..止、id:、-kind:、-label:名=值 或 late；含空格的值加引号。",
		},
		"err.beside": {"It can't stand beside the other parts of the query.", "不能与查询的其他部分同时使用。"},
		"err.time": {
			"This is no time. Write 14:00, +2h, -30m or 2026-03-01T14:00.",
			"时间无效。请写 14:00、+2h、-30m 或 2026-03-01T14:00。",
		},
		"err.span":      {"This is no span of time. Write +2h, -30m or +1d.", "时长无效。请写 +2h、-30m 或 +1d。"},
		"err.gap":       {"This time does not exist: the clocks are put forward then.", "该时间不存在：当时时钟会拨快。"},
		"err.signin":    {"Sign in to see this.", "请先登录。"},
		"err.signins":   {"Too many sign-ins wait to be checked. Try again in some seconds.", "等待验证的登录过多，请几秒后重试。"},
		"err.forbidden": {"Your role does not allow this.", "您的角色不允许此操作。"},
		"err.host": {
			"Without a sign-in this page answers to names of this machine only, such as 127.0.0.1.",
			"未设登录时，此页面只响应本机地址，如 127.0.0.1。",
		},
		"err.commit": {
			"The database's answer was lost: the change may have been made. Look before you repeat it.",
			"数据库的应答丢失，更改可能已生效。请先查看，再决定是否重试。",
		},
		"err.nopage":       {"There is no such page.", "页面不存在。"},
		"err.notfound":     {"There is no such task; it may have been purged after its retention.", "任务不存在，可能已过保留期被清除。"},
		"err.nooperation":  {"There is no such mass change.", "批量操作不存在。"},
		"err.norecurrence": {"There is no such recurrence.", "周期任务不存在。"},
		"err.nogroup":      {"There is no such group, or it was removed long after its end.", "没有该任务组，或在结束很久后已被清除。"},
		"err.slow":         {"This took too long. Narrow the search, or try again.", "耗时过长。请缩小范围或重试。"},
		"err.away": {
			"The database does not answer. Tasks wait until it does, and none is lost. The runbook is docs/runbooks/mysql-lost.md.",
			"数据库无响应。任务会等到其恢复，不会丢失。处理手册：docs/runbooks/mysql-lost.md。",
		},
		"err.other": {"This failed: %s", "失败：%s"},
	}
}
