package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// An operation of a client: a line of the history.
type operation struct {
	client    int
	key       string
	partition int
	op        string
	expected  string
	value     string
	result    string
	// Microseconds since 1970.
	call, end int64
}

func (o operation) isKnown() bool { return o.result != "?" }

func (o operation) isWrite() bool { return o.op == "PUT" || o.op == "CAS" }

// isAcknowledged says whether a client was told that its write is there.
func (o operation) isAcknowledged() bool { return o.isWrite() && o.result == "ok" }

// A record of a changelog.
type record struct {
	partition  int
	offset     int64
	key, value string
}

// A phase of the run: from its event to the next one.
type phase struct {
	name string
	// The most seconds without an answer; 0 for no such limit.
	bar        float64
	start, end int64
}

// lines gives the fields of each line of a file, which has as many of them.
func lines(path string, fields int) ([][]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all [][]string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := strings.Split(scanner.Text(), "\t")
		if len(line) != fields {
			return nil, fmt.Errorf("%s:%d: %d fields, not %d", path, len(all)+1, len(line), fields)
		}
		all = append(all, line)
	}
	return all, scanner.Err()
}

func number(text string, err *error) int64 {
	value, failure := strconv.ParseInt(text, 10, 64)
	if failure != nil && *err == nil {
		*err = failure
	}
	return value
}

func readHistory(path string) ([]operation, error) {
	all, err := lines(path, 9)
	history := make([]operation, 0, len(all))
	for _, f := range all {
		history = append(history, operation{
			client: int(number(f[0], &err)), key: f[1], partition: int(number(f[2], &err)), op: f[3],
			expected: f[4], value: f[5], result: f[6], call: number(f[7], &err), end: number(f[8], &err),
		})
	}
	return history, err
}

func readChangelog(path string) ([]record, error) {
	all, err := lines(path, 4)
	changelog := make([]record, 0, len(all))
	for _, f := range all {
		changelog = append(changelog, record{int(number(f[0], &err)), number(f[1], &err), f[2], f[3]})
	}
	return changelog, err
}

// readPhases gives the phases; the last event ends the last one.
func readPhases(path string) ([]phase, error) {
	all, err := lines(path, 3)
	var phases []phase
	for _, f := range all {
		at := number(f[0], &err) * 1000
		if n := len(phases); n > 0 {
			phases[n-1].end = at
		}
		bar, failure := strconv.ParseFloat(f[2], 64)
		if failure != nil && err == nil {
			err = failure
		}
		phases = append(phases, phase{name: f[1], bar: bar, start: at})
	}
	if len(phases) < 2 {
		return nil, fmt.Errorf("%s: no phase has ended", path)
	}
	return phases[:len(phases)-1], err
}
