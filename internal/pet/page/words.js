"use strict";
// The words of the page. {0} stands for the first value.
window.gameWords = {
  en: {
    title: "Pet game", owner: "Owner", show: "Show", console: "Console", name: "Name", make: "New pet", journal: "Journal",
    when: "When", pet: "Pet", what: "What", lag: "Lag", version: "Version", food: "Food", eaten: "Eaten", armed: "Auto-feeds",
    none: "No pets yet. Make one and feed it.",
    feed: "Feed", speedup: "Speed up ({0})", autofeed: "Auto-feed ({0})", cancel: "Cancel", all: "Speed up all pets of {0}",
    rules: "A meal takes {0}. A speed-up card takes {1} off the meal that is going on. An auto-feed card feeds the pet once more when its meal ends.",
    hungry: "hungry", dial: "{0}: the meal ends in {1}", idle: "{0} is hungry", task: "task", lastlag: "last meal {0} after its time",
    fed: "was fed", auto_fed: "was fed by a card", mealtime_fed: "was fed at its mealtime", sped_up: "got a speed-up card",
    autofeed_armed: "got an auto-feed card", meal_finished: "has eaten", meal_cancelled: "the meal was cancelled",
    did: "{0} of {1}'s meals end sooner", away: "The game can't be reached; it is tried again.",
    already_eating: "This pet is eating.", not_eating: "This pet is not eating.", no_food: "This pet has no food left.",
    no_card: "This pet has no such card left.", busy: "This is busy; try again.", unavailable: "MySQL is away; try again.",
  },
  zh: {
    title: "宠物游戏", owner: "主人", show: "查看", console: "控制台", name: "名字", make: "领养宠物", journal: "日志",
    when: "时间", pet: "宠物", what: "事件", lag: "延迟", version: "版本", food: "食物", eaten: "已吃", armed: "待自动喂食",
    none: "还没有宠物。领养一只，然后喂它。",
    feed: "喂食", speedup: "加速卡（{0}）", autofeed: "自动喂食卡（{0}）", cancel: "取消", all: "给 {0} 的所有宠物加速",
    rules: "一顿饭需要 {0}。加速卡让正在吃的这顿饭提前 {1} 结束；自动喂食卡在这顿饭结束时再喂一次。",
    hungry: "饿了", dial: "{0}：还有 {1} 吃完", idle: "{0} 饿了", task: "任务", lastlag: "上一顿饭晚了 {0}",
    fed: "开始吃饭", auto_fed: "由卡片自动喂食", mealtime_fed: "按时间表喂食", sped_up: "用了加速卡",
    autofeed_armed: "用了自动喂食卡", meal_finished: "吃完了", meal_cancelled: "这顿饭被取消",
    did: "{1} 的 {0} 顿饭将提前结束", away: "连不上游戏服务，正在重试。",
    already_eating: "它正在吃。", not_eating: "它没有在吃。", no_food: "没有食物了。",
    no_card: "没有这种卡了。", busy: "正忙，请重试。", unavailable: "MySQL 不可用，请重试。",
  },
};
