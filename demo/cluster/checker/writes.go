package main

import "fmt"

// writes compares what clients were told with what the changelogs have, and with what a promoted standby serves.
func writes(history []operation, changelog []record, served map[string]string) []string {
	type write struct{ key, value string }
	times := map[write]int{}
	last := map[string]string{}
	for _, r := range changelog {
		times[write{r.key, r.value}]++
		last[r.key] = r.value
	}
	var failures []string
	count := func(text string, n int) {
		if n > 0 {
			failures = append(failures, fmt.Sprintf(text, n))
		}
	}
	lost, twice, refused, read := 0, 0, 0, 0
	finals := map[string]operation{}
	for _, o := range history {
		n := times[write{o.key, o.value}]
		switch {
		case o.isAcknowledged() && n == 0:
			lost++
		case o.isWrite() && n > 1:
			twice++
		case o.isWrite() && o.result == "no" && n > 0:
			refused++
		}
		if o.op == "GET" && o.isKnown() && o.call > finals[o.key].call {
			finals[o.key] = o
		}
	}
	for key, o := range finals {
		if o.result != last[key] {
			read++
		}
	}
	other := 0
	for key, value := range last {
		if served[key] != value {
			other++
		}
	}
	count("%d acknowledged writes are in no changelog", lost)
	count("%d writes happened twice", twice)
	count("%d writes happened that were refused", refused)
	count("%d keys: the last read is not the last write of the changelog", read)
	count("%d keys: a promoted standby serves another value than the changelog has", other)
	if len(served) != len(last) {
		failures = append(failures, fmt.Sprintf("a promoted standby serves %d keys, the changelogs have %d", len(served), len(last)))
	}
	return failures
}
