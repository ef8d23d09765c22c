package lane

// queue is a first-in first-out ring that grows as needed. Its users bound it.
type queue[T any] struct {
	items []T
	head  int
	n     int
}

func (q *queue[T]) len() int { return q.n }

func (q *queue[T]) push(v T) {
	q.grow()
	q.items[(q.head+q.n)%len(q.items)] = v
	q.n++
}

// pushFront puts back what was popped.
func (q *queue[T]) pushFront(v T) {
	q.grow()
	q.head = (q.head + len(q.items) - 1) % len(q.items)
	q.items[q.head] = v
	q.n++
}

func (q *queue[T]) grow() {
	if q.n < len(q.items) {
		return
	}
	grown := make([]T, max(8, 2*len(q.items)))
	copied := copy(grown, q.items[q.head:])
	copy(grown[copied:], q.items[:q.head])
	q.items, q.head = grown, 0
}

func (q *queue[T]) peek() (T, bool) {
	var zero T
	if q.n == 0 {
		return zero, false
	}
	return q.items[q.head], true
}

func (q *queue[T]) pop() (T, bool) {
	v, ok := q.peek()
	if !ok {
		return v, false
	}
	var zero T
	q.items[q.head] = zero // for the garbage collector
	q.head = (q.head + 1) % len(q.items)
	if q.n--; q.n == 0 && len(q.items) > 1024 {
		*q = queue[T]{} // a burst does not stay in memory
	}
	return v, true
}

// popBack takes the newest; the queue must not be empty.
func (q *queue[T]) popBack() T {
	var zero T
	q.n--
	i := (q.head + q.n) % len(q.items)
	v := q.items[i]
	q.items[i] = zero
	return v
}
