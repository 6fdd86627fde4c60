package why

import "maps"

func chineseTexts() map[string]text {
	all := map[string]text{
		mysqlAway: {
			"MySQL 无响应：{error}。恢复前任务不会执行，也不会丢失。",
			"恢复 MySQL。所有进程会自行继续。",
		},
		"no-worker": {
			"队列 {queue} 没有存活的工作进程。迟到任务 {tasks} 个，最早的已迟到 {late_ms}。",
			"启动该队列的工作进程。存活的进程：duetime processes",
		},
		"no-worker.silent": {
			"队列 {queue} 没有存活的工作进程：最后一个 {worker} 已失联 {silent_ms}。迟到任务 {tasks} 个，最早的已迟到 {late_ms}。",
			"查明 {worker} 为何退出或卡住，然后重新启动。",
		},
		"no-worker.ahead": {
			"队列 {queue} 没有存活的工作进程。{span_ms}内到期的任务 {tasks} 个，最早的 {next_ms}后到期。",
			"启动该队列的工作进程。存活的进程：duetime processes",
		},
		"worker-silent": {
			"{worker} 已失联 {silent_ms}，当时在执行 {runs} 个任务。队列 {queue} 迟到任务 {tasks} 个，最早的已迟到 {late_ms}。存活的工作进程：{living} 个。",
			"如果 {worker} 卡住或断网，请终止它：其余进程会接管它的任务。",
		},
		"worker-stuck": {
			"{worker} 执行类型 {kind} 已达 {run_ms}，上限为 {limit_ms}，占用 {tasks} 个任务。",
			"查明处理函数在等什么，然后重启该工作进程：其任务会回滚并重新执行。第一个任务是 {task}。",
		},
		"paused": {
			"队列 {queue} 已暂停 {paused_ms}。等待中的到期任务 {tasks} 个，最早的已等待 {late_ms}。",
			"如果暂停已结束：duetime resume {queue}",
		},
		"limited": {
			"队列 {queue} 已达到上限 {limit}。迟到任务 {tasks} 个，最早的已迟到 {late_ms}。",
			"如果可以放宽：duetime queue rate {queue} RATE，或 duetime queue concurrency {queue} N",
		},
		"slow-handler": {
			"类型 {kind} 的处理函数耗时 {handler_ms}，此前为 {before_ms}。队列 {queue} 迟到任务 {tasks} 个，最早的已迟到 {late_ms}。",
			"查看处理函数调用了什么，以及最近部署了什么：duetime processes 显示版本",
		},
		"behind": {
			"队列 {queue} 的工作进程跟不上：完成 {ended_rate}，到期 {coming_rate}。迟到任务 {tasks} 个，多为类型 {kind}，最早的已迟到 {late_ms}。" +
				"按此速度，{drained_ms}后恢复准时。",
			"等待，或增加工作进程。",
		},
		"behind.grows": {
			"队列 {queue} 的工作进程跟不上：完成 {ended_rate}，到期 {coming_rate}。迟到任务 {tasks} 个，多为类型 {kind}，最早的已迟到 {late_ms}。" +
				"按此速度，一小时内不会恢复准时。",
			"增加工作进程，或调高 worker.concurrency；或限制 MySQL 的其他使用者。",
		},
		"behind.eases": {
			"队列 {queue} 的工作进程跟不上：完成 {ended_rate}，到期 {coming_rate}。迟到任务 {tasks} 个，多为类型 {kind}，最早的已迟到 {late_ms}。" +
				"之后到期的较少：{drained_ms}后恢复准时。",
			"增加工作进程，或等待。",
		},
		"behind.unread": {
			"队列 {queue} 的工作进程跟不上：完成 {ended_rate}。迟到任务 {tasks} 个，多为类型 {kind}，最早的已迟到 {late_ms}。",
			"增加工作进程，或调高 worker.concurrency。",
		},
	}
	maps.Copy(all, chinesePipelineTexts())
	maps.Copy(all, chineseTaskTexts())
	return all
}

func chinesePipelineTexts() map[string]text {
	return map[string]text{
		"kafka-away": {
			"Kafka 无响应：{error}。任务照常执行，最多延迟 2 秒：工作进程改查 MySQL。任务不会丢失。",
			"恢复 Kafka。数据可以丢失：工作进程和领导者会自行继续。",
		},
		"redis-away": {
			"Redis 无响应：{error}。任务照常执行，最多延迟 2 秒：工作进程改查 MySQL。任务不会丢失。",
			"恢复 Redis，空的也可以：守护进程会用数据库的行填充它。",
		},
		"zookeeper-away": {
			"ZooKeeper 无响应：{error}。任务准时执行；但领导者退出后无人接替。",
			"恢复 ZooKeeper。在此之前不要重启 event 进程和守护进程。",
		},
		"no-leader.event": {
			"没有存活的进程领导 event。任务照常执行，最多延迟 2 秒：工作进程改查 MySQL。",
			"启动 event 进程，或查明为何无人当选：duetime leader show",
		},
		"no-leader.daemon": {
			"没有存活的进程领导 daemon。任务准时执行；但差错无人修正，批量操作会等待。",
			"启动守护进程，或查明为何无人当选：duetime leader show",
		},
		"degraded": {
			"队列 {queue} 有 {workers} 个工作进程改查 MySQL，因为提示到得晚。任务照常执行，部分最多延迟 2 秒。",
			"查看 event 的领导者，以及 Kafka 和 Redis 的响应速度。",
		},
		"unknown-kind": {
			"队列 {queue} 没有存活的工作进程能处理类型 {kind}。等待中的任务 {tasks} 个。",
			"部署能处理该类型的工作进程，或取消其任务：duetime bulk cancel --kind {kind}",
		},
		"unknown-kind.ahead": {
			"队列 {queue} 没有存活的工作进程能处理类型 {kind}。{span_ms}内到期的任务 {tasks} 个，最早的 {next_ms}后到期。",
			"部署能处理该类型的工作进程，或取消其任务：duetime bulk cancel --kind {kind}",
		},
		"unexplained": {
			"队列 {queue} 有任务迟到，读到的数据不能说明原因：{tasks} 个，多为类型 {kind}，最早的已迟到 {late_ms}。",
			"查看工作进程的日志，并比对行与索引：duetime verify",
		},
		"dying": {
			"类型 {kind} 的任务从 {first_ms}前起死于同一错误，最近一次在 {last_ms}前：{error}。目前 {tasks} 个。",
			"修正处理函数，然后：duetime dead retry --kind {kind}",
		},
		wasLate: {
			"目前没有迟到。最近 {span_ms}执行的 {fired} 个任务中，{were_late} 个迟到超过一秒。",
			"查看某个任务迟到的原因：duetime why ID",
		},
		onTime:             {"准时：最近 {span_ms}执行了 {fired} 个，{within}% 在一秒内。", ""},
		onTime + ".idle":   {"准时：最近 {span_ms}没有到期任务。", ""},
		onTime + ".unread": {"目前没有迟到。", ""},
	}
}

func chineseTaskTexts() map[string]text {
	return map[string]text{
		"task-done":      {"到期后 {lag_ms}生效。", ""},
		"task-done.late": {"到期后 {lag_ms}生效。", "期间队列发生的事见其经历：duetime task get {task}"},
		"task-cancelled": {"已取消：不会再执行。", ""},
		"task-dead": {
			"{attempt} 次尝试失败后死亡：{error}",
			"修正失败原因，然后：duetime task retry {task}",
		},
		"task-held": {
			"{worker} 于 {run_ms}前开始执行，已失联 {silent_ms}。",
			"如果 {worker} 卡住或断网，请终止它：其他工作进程会接管该任务。",
		},
		"task-runs": {"{worker} 已执行 {run_ms}。", ""},
		"task-runs.long": {
			"{worker} 已执行 {run_ms}，上限为 {limit_ms}。",
			"查明处理函数在等什么，然后重启该工作进程：任务会回滚并重新执行。",
		},
		"task-behind": {
			"已到期 {late_ms}，在等待同一顺序键中更早的任务 {head}。",
			"查看那个任务为何未结束：duetime why {head}",
		},
		"task-paused": {
			"已到期 {late_ms}。它所属的任务已暂停，{next_ms}后继续。",
			"谁暂停的、如何恢复：duetime pause --list",
		},
		"task-limited": {
			"已到期 {late_ms}。队列 {queue} 对每个所有者限速，同一所有者的其他任务排在前面；{next_ms}后轮到它。",
			"",
		},
		"task-unknown-kind": {
			"已到期 {late_ms}。取走它的工作进程都不能处理类型 {kind}；{next_ms}后换一个再试。",
			"部署能处理该类型的工作进程，或取消该任务：duetime task cancel {task}",
		},
		"task-retry": {
			"已到期 {late_ms}。第 {attempt} 次尝试失败（共 {max_attempts} 次）：{error}。{next_ms}后再次尝试。",
			"修正失败原因后立即重试：duetime task reschedule {task} --at now",
		},
		"task-put-off":  {"处理函数推迟了它，或工作进程停止时交回了它。{next_ms}后再次尝试。", ""},
		"task-not-due":  {"{next_ms}后到期。", ""},
		"task-due":      {"已到期 {late_ms}：工作进程会立即取走。", ""},
		"task-due.late": {"已到期 {late_ms}，读到的数据不能说明它为何等待。", "查看工作进程的日志，并比对行与索引：duetime verify"},
	}
}
