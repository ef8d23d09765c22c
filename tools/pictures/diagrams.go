package main

func drawPath() *picture {
	p := &picture{width: 940, height: 365, title: "The path of an event: from providers and applications to the log, " +
		"the dispatcher and destinations; outcomes go through the store writer to ClickHouse, which the API reads"}
	p.box(20, 40, 130, 64, "plain", "Providers", "Stripe, GitHub, …")
	p.box(20, 150, 130, 64, "plain", "Applications", "your own events")
	p.box(220, 40, 150, 64, "link", "Ingest", "verifies signatures")
	p.box(220, 150, 150, 64, "link", "API", "send, replay, recover")
	p.box(440, 40, 150, 174, "ok", "Log", "events, commands,", "retries, outcomes;", "on disk before", "the answer 2xx")
	p.box(660, 95, 120, 64, "link", "Dispatcher", "signs, retries")
	p.box(810, 95, 110, 64, "plain", "Destinations", "your services")
	p.box(440, 280, 150, 64, "link", "Store writer", "in batches")
	p.box(220, 280, 150, 64, "ok", "ClickHouse", "events, attempts")
	p.arrows("", "M150 72H214", "M150 182H214", "M370 72H434", "M370 182H434", "M590 127H654", "M780 127H804",
		"M720 159V192H596", "M515 214V274", "M440 312H376", "M295 280V220")
	p.text(622, 119, "m s", "events")
	p.text(658, 209, "m s", "outcomes, retries")
	p.text(402, 174, "m s", "events,")
	p.text(402, 200, "m s", "replays")
	p.text(525, 250, "s", "everything")
	p.text(285, 244, "e s", "search, usage,", "status")
	return p
}

func drawDelivery() *picture {
	p := &picture{width: 900, height: 410, title: "States of a delivery: pending, retrying and held wait; delivered, " +
		"failed and skipped are final until a replay or a recovery job sends it again"}
	p.group(20, 20, 420, 318, "Waits")
	p.box(40, 70, 140, 56, "plain", "pending", "first attempt ahead")
	p.box(285, 70, 135, 56, "wait", "retrying", "next attempt ahead")
	p.box(165, 232, 130, 56, "held", "held", "nothing is sent")
	p.text(232, 90, "m s", "attempt fails")
	p.text(230, 152, "m s", "paused, or circuit", "breaker open")
	p.text(230, 312, "m s", "resumed, or a probe succeeds: back to where it was")
	p.group(660, 20, 220, 318, "Ended")
	p.box(685, 62, 170, 56, "ok", "delivered")
	p.box(685, 160, 170, 56, "bad", "failed", "for good")
	p.box(685, 258, 170, 56, "plain", "skipped", "not to be sent")
	p.text(550, 82, "m s", "answered 2xx")
	p.text(550, 180, "m s", "attempts used up")
	p.text(550, 205, "m s", "or not retryable, 410 Gone,", "payload expired,", "transformation failed")
	p.text(550, 278, "m s", "filtered, delivery loop")
	p.text(550, 303, "m s", "or destination disabled,", "deleted or purged, job ended")
	p.arrows("", "M180 98H279", "M440 90H679", "M440 188H679", "M440 286H679")
	p.arrows("both", "M122 132 198 226", "M338 132 262 226")
	p.arrows("back", "M770 338V372H230V344")
	p.text(500, 393, "m s", "a replay or a recovery job sends it again")
	return p
}

func drawRecovery() *picture {
	p := &picture{width: 860, height: 410, title: "States of a recovery job: preparing, ready, canary_running, " +
		"awaiting_approval, running, completed; it ends early as failed, stopped, cancelled or expired"}
	p.box(20, 40, 150, 56, "plain", "preparing", "selects deliveries")
	p.box(243, 40, 150, 56, "plain", "ready", "sends nothing yet")
	p.box(466, 40, 150, 56, "link", "canary_running", "sends up to 5")
	p.box(689, 40, 150, 56, "held", "awaiting_approval", "waits for a person")
	p.box(689, 156, 150, 56, "link", "running", "at the job's rate")
	p.box(456, 156, 160, 56, "ok", "completed", "all delivered or skipped")
	p.arrows("", "M170 68H237", "M393 68H460", "M616 68H683", "M764 96V150", "M689 184H622", "M541 96V150", "M95 96V244")
	p.text(205, 60, "m s", "selected")
	p.text(428, 60, "m s", "canary")
	p.text(651, 60, "m s", "delivered")
	p.text(774, 128, "s", "continue")
	p.text(655, 176, "m s", "all sent")
	p.text(531, 128, "e s", "nothing is left")
	p.text(105, 166, "s", "from every state", "before completed")
	p.group(20, 250, 819, 140, "Ends early: a delivery that was not sent keeps its state, and another job can send it")
	p.box(36, 290, 192, 84, "bad", "failed", "the selection", "cannot be made")
	p.box(234, 290, 192, 84, "bad", "stopped", "a delivery fails for good, or", "its destination is disabled")
	p.box(432, 290, 192, 84, "plain", "cancelled", "in the dashboard", "or through the API")
	p.box(630, 290, 192, 84, "wait", "expired", "24 hours after", "it was created")
	return p
}
