package consoleweb

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The languages of the pages.
const (
	english = "en"
	chinese = "zh"
)

func languages() []string { return []string{english, chinese} }

// words is a message in each language. It is a format of package fmt.
type words struct{ en, zh string }

// messages are the words of all pages by their keys.
var messages = sync.OnceValue(func() map[string]words {
	all := map[string]words{}
	for _, part := range []map[string]words{
		frameWords(), stateWords(), viewWords(), searchWords(), processWords(), ownerWords(), figureWords(), healthWords(), changeWords(), pauseWords(), queueWords(), outcomeWords(), errorWords(), singularWords(),
	} {
		maps.Copy(all, part)
	}
	return all
})

// say returns a message; that of the key with ".one", where there is one, if its first value is 1. A key without a message, such as
// an event of a later version, gives its last part.
func say(lang, key string, args ...any) string {
	text, known := messages()[key]
	if len(args) > 0 && fmt.Sprint(args[0]) == "1" {
		if one, special := messages()[key+".one"]; special {
			text = one
		}
	}
	if !known {
		return key[strings.LastIndexByte(key, '.')+1:]
	}
	format := text.en
	if lang == chinese {
		format = text.zh
	}
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// langOf is the language that somebody chose, or the one that the browser prefers; English if it prefers neither.
func langOf(chosen, accepted string) string {
	if slices.Contains(languages(), chosen) {
		return chosen
	}
	best, weight := english, 0.0
	for part := range strings.SplitSeq(accepted, ",") {
		tag, q, weighted := strings.Cut(strings.TrimSpace(part), ";q=")
		w := 1.0
		if weighted {
			var err error
			if w, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		lang, _, _ := strings.Cut(strings.ToLower(tag), "-")
		if w > weight && slices.Contains(languages(), lang) {
			best, weight = lang, w
		}
	}
	return best
}

// frameWords are those around the views.
func frameWords() map[string]words {
	return map[string]words{
		"view.now":        {"Now", "现在"},
		"view.tasks":      {"Tasks", "任务"},
		"view.owner":      {"Owner", "所有者"},
		"view.dead":       {"Dead", "死亡任务"},
		"view.operations": {"Mass changes", "批量操作"},
		"view.operation":  {"Mass change", "批量操作"},
		"view.changes":    {"Changes", "变更"},
		"view.system":     {"System", "系统"},
		"view.task":       {"Task", "任务"},
		"view.group":      {"Groups", "任务组"},
		"view.change":     {"Confirm", "确认"},
		"view.done":       {"Done", "已完成"},
		"view.refused":    {"No answer", "无法回应"},
		"skip":            {"Skip to content", "跳到内容"},
		"menu":            {"Views", "视图"},
		"jump":            {"Owner, task id, kind or queue", "所有者、任务 ID、类型或队列"},
		"question":        {"Question", "确认"},
		"close":           {"Close", "关闭"},
		"keys":            {"Keys", "快捷键"},
		"key.search":      {"search", "搜索"},
		"key.rows":        {"next row, and the one before", "下一行、上一行"},
		"key.pick":        {"choose the row, or all from the one chosen before", "选择该行，或选到上次选择的行"},
		"key.keys":        {"these keys", "显示快捷键"},
		"user":            {"You are %s", "当前用户 %s"},
		"zone":            {"Times in %s", "时区 %s"},
		"light":           {"light", "浅色"},
		"dark":            {"dark", "深色"},
		"auto":            {"as the system", "跟随系统"},
		"refused":         {"This did not work", "未能完成"},
		"status":          {"Status %d", "状态码 %d"},
		"done":            {"Done", "已完成"},
		"back":            {"Back", "返回"},
		"now":             {"now", "现在"},
		"ago":             {"%s ago", "%s前"},
		"in":              {"in %s", "%s后"},
		"unanswered":      {"The console does not answer.", "控制台无响应。"},
		"unanswered.age":  {"These figures are as of %s.", "以下是%s的数据。"},
		"unit.y":          {"y", "年"},
		"unit.d":          {"d", "天"},
		"unit.h":          {"h", "小时"},
		"unit.min":        {"min", "分钟"},
		"unit.s":          {"s", "秒"},
		"unit.ms":         {"ms", "毫秒"},
		"unit.y.one":      {"year", "1 年"},
		"unit.d.one":      {"day", "1 天"},
		"unit.h.one":      {"hour", "1 小时"},
		"unit.min.one":    {"minute", "1 分钟"},
		"unit.s.one":      {"second", "1 秒"},
		"all":             {"all", "全部"},
		"none":            {"none", "无"},
		"show":            {"Show", "显示"},
		"span":            {"Span", "时间范围"},
		"first":           {"First page", "第一页"},
		"next":            {"Next page", "下一页"},
		"earlier":         {"Earlier", "更早"},
		"later":           {"Later", "更晚"},
		"from":            {"From", "从"},
		"until":           {"Until", "到"},
	}
}

// stateWords name states, events and verbs.
func stateWords() map[string]words {
	return map[string]words{
		"state.pending":     {"pending", "待执行"},
		"state.done":        {"done", "已完成"},
		"state.cancelled":   {"cancelled", "已取消"},
		"state.dead":        {"dead", "死亡"},
		"recstate.active":   {"active", "有效"},
		"recstate.paused":   {"paused", "已暂停"},
		"recstate.stopped":  {"stopped", "已停止"},
		"recstate.over":     {"over", "已结束"},
		"groupstate.open":   {"open", "未封闭"},
		"groupstate.sealed": {"sealed", "已封闭"},
		"groupstate.ended":  {"ended", "已结束"},
		"opstate.running":   {"running", "进行中"},
		"opstate.paused":    {"paused", "已暂停"},
		"opstate.cancelled": {"stopped", "已停止"},
		"opstate.done":      {"done", "已完成"},
		"event.scheduled":   {"scheduled", "已安排"},
		"event.done":        {"done", "已完成"},
		"event.moved":       {"moved", "已改期"},
		"event.failed":      {"failed", "失败"},
		"event.snoozed":     {"snoozed", "推迟"},
		"event.cancelled":   {"cancelled", "已取消"},
		"event.skipped":     {"skipped", "已跳过"},
		"event.dead":        {"dead", "死亡"},
		"event.retried":     {"retried", "已重试"},
		"event.discarded":   {"discarded", "已丢弃"},
		"event.requeued":    {"requeued", "已换队列"},
		"event.imported":    {"imported", "已导入"},
		"event.paused":      {"paused", "已暂停"},
		"event.resumed":     {"resumed", "已恢复"},
		"event.added":       {"queue added", "已添加队列"},
		"event.retired":     {"queue retired", "已停用队列"},
		"event.resign":      {"asked to resign", "要求让位"},
		"event.rebuild":     {"rebuild", "重建"},
		"event.shards":      {"shards", "分片"},
		"event.horizon":     {"horizon", "索引范围"},
		"event.defined":     {"defined", "已定义"},
		"event.stopped":     {"stopped", "已停止"},
		"event.over":        {"over", "已结束"},
		"event.begun":       {"begun", "已开始"},
		"event.extra":       {"extra task", "额外任务"},
		"event.blocked":     {"blocked", "已封禁"},
		"event.unblocked":   {"unblocked", "已解封"},
		"event.follows":     {"follows a group", "任务组的后续"},
		"event.mended":      {"mended", "已修正"},
		"event.limited":     {"limit set", "已设限"},
		"event.degraded":    {"degraded", "已降级"},
		"event.recovered":   {"recovered", "已恢复正常"},
		"verb.shift":        {"Move", "改期"},
		"verb.cancel":       {"Cancel", "取消任务"},
		"verb.requeue":      {"Move to another queue", "换队列"},
		"verb.retry":        {"Retry", "重试"},
		"verb.discard":      {"Discard", "丢弃"},
	}
}

// singularWords are messages whose first value is 1.
func singularWords() map[string]words {
	return map[string]words{
		"ask.dead.retry.one": {
			"Retry %s dead task? It is due at once, with all its attempts.",
			"要重试 %s 个死亡任务吗？它会立即到期，并重新获得全部尝试次数。",
		},
		"ask.dead.discard.one": {"Discard %s dead task? It ends as cancelled.", "要丢弃 %s 个死亡任务吗？它将以已取消结束。"},
		"ask.bulk.count.one":   {"Change %s task: %s?", "要修改 %s 个任务：%s？"},
		"fact.left.one":        {"%d task is left.", "剩余 %d 个任务。"},
		"fact.stays.one":       {"%d task was changed, and stays so.", "已修改 %d 个任务，不会还原。"},
		"fact.owner.tasks.one": {"%d pending task is cancelled.", "将取消 %d 个待执行任务。"},
		"did.owner.block.one":  {"The owner is blocked. %d task was cancelled.", "所有者已封禁，已取消 %d 个任务。"},
		"did.op.pause.one":     {"The mass change is paused. It has changed %d task.", "批量操作已暂停，已修改 %d 个任务。"},
		"did.op.resume.one":    {"The mass change goes on. It has changed %d task.", "批量操作继续进行，已修改 %d 个任务。"},
		"did.op.stop.one":      {"The mass change was stopped. It has changed %d task.", "批量操作已停止，已修改 %d 个任务。"},
		"dead.sum.one":         {"%s dead task, by kind and error", "%s 个死亡任务，按类型和错误分组"},
		"dead.found.one":       {"%s dead task", "%s 个死亡任务"},
		"dead.errors.one":      {"%d error", "%d 种错误"},
		"ahead.has.one":        {"%s task", "%s 个任务"},
		"now.early.one":        {"%s task took effect before its time.", "%s 个任务在到期前生效。"},
		"now.hintslate.one":    {"hints are late for %d worker", "%d 个工作进程的提示迟到"},
		"ahead.more.one":       {"%d smaller group is left out.", "另有 %d 个较小的分组未显示。"},
		"health.broken.one":    {"%d shard must be rebuilt; the daemon does it.", "%d 个分片缺失数据，守护进程会重建。"},
		"health.shards.one":    {"%d shard with %s entries", "%d 个分片，共 %s 个条目"},
	}
}
