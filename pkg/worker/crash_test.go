package worker_test

const childEnv = "DUETIME_WORKER_TEST_CHILD"

func childMain(string) int { return 0 }
