------------------------------- MODULE Relay -------------------------------
(* What the relay promises about accepting and delivering. docs/design/model.md says which code each action is. *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Nodes, Dispatchers, \* those that accept; those of them that deliver
  Dests,              \* destinations of the endpoint
  Requests,           \* how many sends there are; the event id that request r draws is r
  Keyed,              \* all requests have the same Idempotency-Key; otherwise none has one
  OneMachine,         \* the log and the claims are in the only process, and survive it
  Anyway,             \* clients prefer an event that may be stored twice to a 503
  Mutant,             \* "none", or the fault that is planted
  Crashes, Expulsions, Losses, Failures, Restarts, Expiries \* at most so many faults

VARIABLES
  key,       \* the claim of the key: state, event, who may store that instead (over), window, whether memory was lost
  req,       \* by request: pc, node, event, held (the claim), window (in which the id was claimed), old (the id is)
  flight,    \* requests whose record the producer still holds
  acked,     \* events that a client got a 2xx for
  log,       \* by topic: records, each an event and the destinations that it is for
  commit,    \* by topic: the lowest offset that is not completed, and the completed ones above it
  owner,     \* of the partition, as the group knows it
  node,      \* by dispatcher: what it knows of the partition
  received,  \* by event and destination: requests that arrived there, 2 for several
  outcomes,  \* topic, offset, destination and status of what was recorded
  explained, \* events that a crash, a takeover or a lost answer may deliver twice
  left       \* faults that may still happen

accepting == <<key, req, flight, acked>>
delivering == <<commit, owner, node, received, outcomes>>
vars == <<accepting, log, delivering, explained, left>>
ids == 1..Requests
Topics == {"events", "retry"}

Spend(fault) == left[fault] > 0 /\ left' = [left EXCEPT ![fault] = @ - 1]
Min2(i) == IF i > 2 THEN 2 ELSE i
Has(e) == \E o \in 1..Len(log["events"]) : log["events"][o].event = e
Records == UNION {{t} \X (1..Len(log[t])) : t \in Topics}
Pending(p) == p[2] >= commit[p[1]].next /\ p[2] \notin commit[p[1]].gaps
Event(x) == log[x[1]][x[2]].event
For(x) == log[x[1]][x[2]].dests
Nothing == [own |-> FALSE, next |-> [t \in Topics |-> 1], open |-> [x \in {} |-> ""], done |-> {}, known |-> {},
            copies |-> {}]

Init ==
  /\ key = [state |-> "free", event |-> 0, over |-> 0, window |-> 1, lost |-> FALSE]
  /\ \E place \in [ids -> Nodes] : req = [r \in ids |->
       [pc |-> "new", node |-> place[r], event |-> r, held |-> FALSE, window |-> 0, old |-> FALSE]]
  /\ flight = {} /\ acked = {} /\ explained = {} /\ outcomes = {} /\ owner = "none"
  /\ log = [t \in Topics |-> <<>>] /\ commit = [t \in Topics |-> [next |-> 1, gaps |-> {}]]
  /\ node = [n \in Dispatchers |-> Nothing] /\ received = [e \in ids |-> [d \in Dests |-> 0]]
  /\ left = [crash |-> Crashes, expel |-> Expulsions, loss |-> Losses, failure |-> Failures, restart |-> Restarts,
             expiry |-> Expiries]

(* Accepting *)
\* Requests are alike, so they begin in the order of their numbers.
Begins(r) == req[r].pc = "new" /\ (r > 1 => req[r - 1].pc # "new")

Claim(r) ==
  /\ Begins(r) /\ (Keyed => key.state = "free")
  /\ key' = IF Keyed THEN [key EXCEPT !.state = "pending", !.event = r] ELSE key
  /\ req' = [req EXCEPT ![r].pc = "produce", ![r].held = Keyed, ![r].window = key.window]
  /\ UNCHANGED <<flight, acked, log, delivering, explained, left>>

\* The claim is made, but its answer and its release are lost, or nothing arrives.
ClaimUnanswered(r) ==
  /\ Keyed /\ Begins(r) /\ Spend("loss")
  /\ \E made \in {key.state = "free", FALSE} :
       /\ made \/ Anyway
       /\ key' = IF made THEN [key EXCEPT !.state = "pending", !.event = r, !.lost = @ \/ Anyway]
                           ELSE [key EXCEPT !.lost = TRUE]
       /\ req' = [req EXCEPT ![r].pc = IF Anyway THEN "produce" ELSE "failed",
                             ![r].window = IF made THEN key.window ELSE @]
  /\ UNCHANGED <<flight, acked, log, delivering, explained>>

\* A repeat finds the key stored. If that is in doubt, it looks for the event: if the log has none and the id is old, it
\* stores the event under the same id.
Look(r) ==
  /\ Begins(r)
  /\ \/ /\ key.state = "stored" \/ (key.state = "pending" /\ Has(key.event))
        /\ key' = [key EXCEPT !.state = "stored"]
        /\ req' = [req EXCEPT ![r].pc = "done"] /\ acked' = acked \union {key.event} /\ UNCHANGED explained
     \/ /\ key.state = "pending" /\ ~Has(key.event) /\ req[key.event].old /\ key.over = 0
        /\ key' = [key EXCEPT !.over = r] /\ explained' = explained \union {key.event} /\ UNCHANGED acked
        /\ req' = [req EXCEPT ![r].pc = "produce", ![r].held = TRUE,
             ![r].event = IF Mutant = "own id" THEN r ELSE key.event,
             ![r].window = IF Mutant = "own id" THEN key.window ELSE @]
  /\ UNCHANGED <<flight, log, delivering, left>>

Free(e) == IF key.state = "pending" /\ key.event = e THEN [key EXCEPT !.state = "free", !.event = 0] ELSE key

\* The log has certainly not stored the event. While its id is young, no other request may be storing it.
NotStored(r) ==
  /\ req[r].pc = "produce" /\ req' = [req EXCEPT ![r].pc = "failed"]
  /\ key' = CASE ~req[r].held -> key
              [] req[r].event # r -> IF key.over = r THEN [key EXCEPT !.over = 0] ELSE key
              [] req[r].old /\ Mutant # "late release" -> key
              [] OTHER -> Free(r)
  /\ UNCHANGED <<flight, acked, log, delivering, explained, left>>

Produce(r) ==
  /\ req[r].pc = "produce" /\ req' = [req EXCEPT ![r].pc = IF Mutant = "early answer" THEN "answer" ELSE "wait"]
  /\ flight' = flight \union {r}
  /\ UNCHANGED <<key, acked, log, delivering, explained, left>>

Written(r) ==
  /\ r \in flight /\ flight' = flight \ {r}
  /\ log' = [log EXCEPT !["events"] = Append(@, [event |-> req[r].event, dests |-> Dests])]
  /\ req' = [req EXCEPT ![r].pc = IF @ # "wait" THEN @ ELSE IF req[r].held THEN "stored" ELSE "done"]
  /\ acked' = IF req'[r].pc = "done" THEN acked \union {req[r].event} ELSE acked
  /\ UNCHANGED <<key, delivering, explained, left>>

\* The request has waited long enough. Its record may still be written, or never.
GiveUp(r) ==
  /\ req[r].pc = "wait" /\ Spend("loss") /\ req' = [req EXCEPT ![r].pc = "failed"]
  /\ explained' = explained \union {req[r].event}
  /\ key' = IF Mutant = "forgotten doubt" THEN Free(req[r].event) ELSE key
  /\ UNCHANGED <<flight, acked, log, delivering>>

MarkStored(r) ==
  /\ req[r].pc = "stored" /\ req' = [req EXCEPT ![r].pc = "answer"]
  /\ \/ key' = [key EXCEPT !.state = "stored", !.event = req[r].event] /\ UNCHANGED left
     \/ Spend("loss") /\ UNCHANGED key
  /\ UNCHANGED <<flight, acked, log, delivering, explained>>

Answer(r) ==
  /\ req[r].pc = "answer" /\ req' = [req EXCEPT ![r].pc = "done"] /\ acked' = acked \union {req[r].event}
  /\ UNCHANGED <<key, flight, log, delivering, explained, left>>

\* An id grows old, the right to store it ends, the window ends, or Redis loses its memory.
Time ==
  /\ \/ \E r \in ids : /\ Keyed /\ req[r].window > 0 /\ ~req[r].old
                       /\ req' = [req EXCEPT ![r].old = TRUE] /\ UNCHANGED <<key, left>>
     \/ key.over # 0 /\ key' = [key EXCEPT !.over = 0] /\ UNCHANGED <<req, left>>
     \/ /\ key.state # "free" /\ Spend("expiry") /\ UNCHANGED req
        /\ key' = [key EXCEPT !.state = "free", !.event = 0, !.window = @ + 1]
     \/ /\ Keyed /\ Spend("restart") /\ UNCHANGED req
        /\ key' = [key EXCEPT !.state = "free", !.event = 0, !.over = 0, !.lost = TRUE]
  /\ UNCHANGED <<flight, acked, log, delivering, explained>>

(* Delivering *)
Assign(n) ==
  LET gaps == {p \in Records : p[2] \in commit[p[1]].gaps} IN
  /\ ~node[n].own /\ (owner = "none" \/ Mutant = "two owners") /\ owner' = n
  /\ node' = [node EXCEPT ![n] = [Nothing EXCEPT !.own = TRUE, !.known = node[n].known, !.done = gaps, !.copies = gaps,
       !.next = [t \in Topics |-> IF Mutant = "start at end" THEN Len(log[t]) + 1 ELSE commit[t].next]]]
  /\ UNCHANGED <<accepting, log, commit, received, outcomes, explained, left>>

Read(n, t) ==
  LET p == <<t, node[n].next[t]>>
      skip == p \in node[n].done \union node[n].known IN
  /\ node[n].own /\ p \in Records
  /\ node' = [node EXCEPT ![n].next[t] = @ + 1,
       ![n].done = IF skip THEN @ \union {p} ELSE @,
       ![n].open = IF skip THEN @ ELSE @ @@ [x \in {t} \X {p[2]} \X For(p) |-> "open"]]
  /\ explained' = IF owner = n THEN explained ELSE explained \union {Event(p)}
  /\ UNCHANGED <<accepting, log, commit, owner, received, outcomes, left>>

\* An attempt succeeds, fails, or arrives without its answer.
Attempt(n, x) ==
  /\ node[n].open[x] = "open"
  /\ \E result \in {"ok", "failed", "unanswered"} :
       /\ node' = [node EXCEPT ![n].open[x] = IF result = "ok" THEN "ok" ELSE "failed"]
       /\ received' = IF result = "failed" THEN received ELSE [received EXCEPT ![Event(x)][x[3]] = Min2(@ + 1)]
       /\ explained' = IF result = "unanswered" THEN explained \union {Event(x)} ELSE explained
       /\ CASE result = "ok" -> UNCHANGED left [] result = "failed" -> Spend("failure") [] OTHER -> Spend("loss")
  /\ UNCHANGED <<accepting, log, commit, owner, outcomes>>

\* What n knows when the delivery x is done. A slot is completed with the last of its deliveries.
Completed(n, x) ==
  LET rest == DOMAIN node[n].open \ {x}
      isLast == Mutant = "first delivery" \/ \A y \in rest : <<y[1], y[2]>> # <<x[1], x[2]>> IN
  [node[n] EXCEPT !.open = [y \in rest |-> @[y]], !.done = IF isLast THEN @ \union {<<x[1], x[2]>>} ELSE @]

\* The same delivery goes to the retry topic. After a lost answer it is produced again.
FollowUp(n, x) ==
  LET first == Mutant # "outcome first"
      appended == [log EXCEPT !["retry"] = Append(@, [event |-> Event(x), dests |-> {x[3]}])]
      next == [node EXCEPT ![n] = IF first THEN [@ EXCEPT !.open[x] = "followed"] ELSE Completed(n, x)] IN
  /\ node[n].open[x] = IF first THEN "failed" ELSE "recorded"
  /\ \/ log' = appended /\ node' = next /\ UNCHANGED <<explained, left>>
     \/ Mutant = "one try" /\ node' = [node EXCEPT ![n].open[x] = "stuck"] /\ UNCHANGED <<log, explained, left>>
     \/ /\ Spend("loss") /\ explained' = explained \union {Event(x)}
        /\ \/ log' = appended /\ UNCHANGED node
           \/ Mutant = "error ignored" /\ node' = next /\ UNCHANGED log
  /\ UNCHANGED <<accepting, commit, owner, received, outcomes>>

Outcome(n, x) ==
  LET early == Mutant = "outcome first" /\ node[n].open[x] = "failed" IN
  /\ node[n].open[x] \in {"ok", "followed"} \/ early
  /\ outcomes' = outcomes \union {Append(x, IF node[n].open[x] = "ok" THEN "delivered" ELSE "retrying")}
  /\ node' = [node EXCEPT ![n] = IF early THEN [@ EXCEPT !.open[x] = "recorded"] ELSE Completed(n, x)]
  /\ UNCHANGED <<accepting, log, commit, owner, received, explained, left>>

\* A second record of a delivery ends while the node has another that is not recorded and has no follow-up.
EndCopy(n, x) ==
  /\ x[1] = "retry" /\ node[n].open[x] = "open"
  /\ \E y \in DOMAIN node[n].open \ {x} :
       /\ y[1] = "retry" /\ y[3] = x[3] /\ Event(y) = Event(x)
       /\ node[n].open[y] \in {"open", "ok"} \union IF Mutant = "ended follow-up" THEN {"followed"} ELSE {}
  /\ outcomes' = outcomes \union {Append(x, "copy")}
  /\ node' = [node EXCEPT ![n] = [Completed(n, x) EXCEPT !.copies = @ \union {<<x[1], x[2]>>}]]
  /\ UNCHANGED <<accepting, log, commit, owner, received, explained, left>>

\* The group refuses the commit of a node that it has expelled. Brokers may refuse the gaps.
Commit(n) ==
  LET open(t) == {x[2] : x \in {y \in DOMAIN node[n].open : y[1] = t}}
      next(t) == IF open(t) = {} \/ Mutant = "commit past open" THEN node[n].next[t]
                 ELSE CHOOSE o \in open(t) : \A p \in open(t) : o <= p
      above(set) == {p \in set : p[2] >= next(p[1])}
      gaps(t) == {p[2] : p \in {q \in above(node[n].done) : q[1] = t}} IN
  /\ node[n].own /\ owner = n
  /\ \/ commit' = [t \in Topics |-> [next |-> next(t), gaps |-> gaps(t)]] /\ UNCHANGED left
     \/ (\E t \in Topics : gaps(t) # {}) /\ Spend("loss")
        /\ commit' = [t \in Topics |-> [next |-> next(t), gaps |-> {}]]
  /\ commit' # commit
  /\ node' = [node EXCEPT ![n].done = above(@), ![n].copies = above(@)]
  /\ UNCHANGED <<accepting, log, owner, received, outcomes, explained>>

ReadBy(n) == {p \in Records : p[2] < node[n].next[p[1]]}
Uncommitted(n) == {Event(p) : p \in {q \in ReadBy(n) \union node[n].done : Pending(q)}}

\* The group gives the partition away. The node does not know it yet, and goes on.
Expel(n) ==
  /\ owner = n /\ Spend("expel") /\ owner' = "none" /\ explained' = explained \union Uncommitted(n)
  /\ UNCHANGED <<accepting, log, commit, node, received, outcomes>>

\* It notices, and remembers what it has recorded: what lies above the copies.
Lose(n) ==
  LET read == ReadBy(n)
      known == {p \in node[n].done \intersect read :
                  \A c \in node[n].copies \intersect read : c[1] = p[1] => c[2] < p[2]} IN
  /\ node[n].own /\ owner # n
  /\ node' = [node EXCEPT ![n] = [Nothing EXCEPT !.known = CASE Mutant = "inherited copies" -> node[n].done
       [] Mutant = "inherited reads" -> read [] OTHER -> known]]
  /\ UNCHANGED <<accepting, log, commit, owner, received, outcomes, explained, left>>

\* A process starts again without its memory. On one machine it settles the claim: the log has its event or not.
Crash(n) ==
  LET running == {r \in ids : req[r].node = n /\ req[r].pc \in {"produce", "wait", "stored", "answer"}} IN
  /\ Spend("crash") /\ req' = [r \in ids |-> IF r \in running THEN [req[r] EXCEPT !.pc = "failed"] ELSE req[r]]
  /\ explained' = explained \union {req[r].event : r \in running}
                            \union IF n \in Dispatchers THEN Uncommitted(n) ELSE {}
  /\ owner' = IF owner = n THEN "none" ELSE owner
  /\ node' = [m \in Dispatchers |-> IF m = n THEN Nothing ELSE node[m]]
  /\ flight' = IF OneMachine THEN {} ELSE flight
  /\ key' = CASE ~OneMachine \/ key.state # "pending" -> key
              [] Has(key.event) /\ Mutant # "freed claims" -> [key EXCEPT !.state = "stored", !.over = 0]
              [] OTHER -> [key EXCEPT !.state = "free", !.event = 0, !.over = 0]
  /\ UNCHANGED <<acked, log, commit, received, outcomes>>

Deliver == \E n \in Dispatchers :
  \/ Assign(n) \/ Lose(n) \/ Commit(n) \/ \E t \in Topics : Read(n, t)
  \/ \E x \in DOMAIN node[n].open : Attempt(n, x) \/ FollowUp(n, x) \/ Outcome(n, x) \/ EndCopy(n, x)
Next ==
  \/ Deliver \/ Time \/ (\E n \in Dispatchers : Expel(n)) \/ (\E n \in Nodes : Crash(n))
  \/ \E r \in ids : \/ Claim(r) \/ ClaimUnanswered(r) \/ Look(r) \/ NotStored(r) \/ Produce(r)
                    \/ Written(r) \/ GiveUp(r) \/ MarkStored(r) \/ Answer(r)
Spec == Init /\ [][Next]_vars /\ WF_vars(Deliver)
Alike == Permutations(Nodes)

(* Promises *)
NothingIsLost == \A e \in acked : \A d \in Dests :
  received[e][d] > 0 \/ \E p \in Records : Pending(p) /\ Event(p) = e /\ d \in For(p)
OneEventOfAKey == Keyed /\ ~key.lost =>
  \A e, f \in ids : Has(e) /\ Has(f) /\ req[e].window = req[f].window => e = f
NoCommitPassesAnOpenSlot == \A p \in Records :
  ~Pending(p) => \A d \in For(p) : \E x \in outcomes : x[1] = p[1] /\ x[2] = p[2] /\ x[3] = d
FollowUpComesFirst == \A x \in outcomes : x[4] = "retrying" =>
  \E p \in Records : p[1] = "retry" /\ Event(p) = Event(x) /\ x[3] \in For(p) /\ (x[1] = "retry" => p[2] > x[2])
RepeatsAreExplained == \A e \in ids : \A d \in Dests : received[e][d] > 1 => e \in explained
EveryEventIsDelivered == \A e \in ids : e \in acked ~>
  \A d \in Dests : \E x \in outcomes : Event(x) = e /\ x[3] = d /\ x[4] = "delivered"
=============================================================================
