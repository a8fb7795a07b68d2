// Command checker reads what a run of the cluster has left, prints a table, and says what is wrong.
//
//	checker check FOLDER             ends with 1 if anything is wrong
//	checker forward FROM=TO …        passes connections on
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "checker:", err)
		os.Exit(2)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 2 && arguments[0] == "check":
		return check(arguments[1])
	case len(arguments) > 1 && arguments[0] == "forward":
		var pairs [][2]string
		for _, argument := range arguments[1:] {
			from, to, ok := strings.Cut(argument, "=")
			if !ok {
				return fmt.Errorf("not FROM=TO: %s", argument)
			}
			pairs = append(pairs, [2]string{from, to})
		}
		return forward(pairs)
	}
	return fmt.Errorf("checker check FOLDER, or checker forward FROM=TO …")
}

// check reads history, events, changelog and served of the folder. The file failures has what the run itself has found.
func check(folder string) error {
	history, err := readHistory(filepath.Join(folder, "history"))
	if err != nil {
		return err
	}
	phases, err := readPhases(filepath.Join(folder, "events"))
	if err != nil {
		return err
	}
	changelog, err := readChangelog(filepath.Join(folder, "changelog"))
	if err != nil {
		return err
	}
	pairs, err := lines(filepath.Join(folder, "served"), 2)
	if err != nil {
		return err
	}
	served := map[string]string{}
	for _, pair := range pairs {
		served[pair[0]] = pair[1]
	}
	rows, failures := table(phases, history)
	fmt.Println()
	fmt.Print(rows)
	fmt.Println()
	start := time.Now()
	failures = append(failures, linearizable(history, filepath.Join(folder, "history.html"))...)
	took := time.Since(start)
	failures = append(failures, writes(history, changelog, served)...)
	failures = append(failures, noted(filepath.Join(folder, "failures"))...)
	failures = append(failures, memory(filepath.Join(folder, "memory"))...)
	summary(history, changelog, took)
	if len(failures) == 0 {
		fmt.Println("OK")
		return nil
	}
	fmt.Println("FAILED:")
	for _, failure := range failures {
		fmt.Println("  -", failure)
	}
	os.Exit(1)
	return nil
}

// noted gives what the run has noted as wrong, a line each.
func noted(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// memoryMost is the most that the whole run may take, in MiB.
const memoryMost = 4096

func memory(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return []string{err.Error()}
	}
	fmt.Printf("%d MiB of memory at most\n", most)
	if most > memoryMost {
		return []string{fmt.Sprintf("%d MiB of memory, more than %d", most, memoryMost)}
	}
	return nil
}

func summary(history []operation, changelog []record, took time.Duration) {
	acknowledged, unknown := 0, 0
	for _, o := range history {
		if o.isAcknowledged() {
			acknowledged++
		}
		if !o.isKnown() {
			unknown++
		}
	}
	fmt.Printf("%d operations, %d without an answer, checked by porcupine in %.1f s\n", len(history), unknown, took.Seconds())
	fmt.Printf("%d acknowledged writes, %d records in the changelogs\n", acknowledged, len(changelog))
}
