package kafka

const childEnv = "RELAY_TEST_KAFKA_CHILD"

func child() int { return 0 }
