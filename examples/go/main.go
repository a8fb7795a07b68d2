// Everleaf from Go: cgo over the C header. It counts the words of its input in a pool that is kept, and prints all counts.
//
//	CGO_CFLAGS=-IPREFIX/include CGO_LDFLAGS="-LPREFIX/lib -l:libeverleaf.a -lm" go run . POOL < TEXT
package main

/*
#include <everleaf.h>
*/
import "C"

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// check makes an error of a code. Messages belong to a thread: the caller has locked it.
func check(code C.int) error {
	if code >= 0 {
		return nil
	}
	return errors.New(C.GoString(C.everleaf_code_name(code)) + ": " + C.GoString(C.everleaf_last_message()))
}

// start is where bytes are, which Go may not move during a call.
func start(bytes []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(bytes)) }

// text is a string with a 0 at its end, as C has them.
func text(s string) *C.char { return (*C.char)(start(append([]byte(s), 0))) }

// count adds one to the count of a word.
func count(tree *C.everleaf_tree, word []byte) error {
	var number [8]byte
	key, keyLen := start(word), C.size_t(len(word))
	code := C.everleaf_get(tree, key, keyLen, start(number[:]), 8, nil)
	if code < 0 {
		return check(code)
	}
	binary.LittleEndian.PutUint64(number[:], binary.LittleEndian.Uint64(number[:])+1)
	return check(C.everleaf_put(tree, key, keyLen, start(number[:]), 8))
}

// print prints all words and their counts, many of them a call: a call from Go to C is dear.
func print(tree *C.everleaf_tree) error {
	var scan *C.everleaf_scan
	if err := check(C.everleaf_scan_new(tree, nil, 0, nil, 0, 0, &scan)); err != nil {
		return err
	}
	defer C.everleaf_scan_free(scan)
	buf := make([]byte, 1<<18)
	for {
		var pairs, used C.size_t
		code := C.everleaf_scan_fill(scan, start(buf), C.size_t(len(buf)), &pairs, &used, nil)
		if code != C.EVERLEAF_OK {
			return check(code)
		}
		for at := buf[:used]; len(at) > 0; {
			keyLen, valueLen := binary.NativeEndian.Uint32(at), binary.NativeEndian.Uint32(at[4:])
			key, value := at[8:8+keyLen], at[8+keyLen:8+keyLen+valueLen]
			fmt.Printf("%s %d\n", key, binary.LittleEndian.Uint64(value))
			at = at[8+keyLen+valueLen:]
		}
	}
}

func run(path string) error {
	runtime.LockOSThread()
	var db *C.everleaf_db
	var tree *C.everleaf_tree
	defer func() { C.everleaf_tree_free(tree); C.everleaf_db_free(db) }()
	if err := check(C.everleaf_open(text(path), nil, &db)); err != nil {
		return err
	}
	if err := check(C.everleaf_tree_create(db, text("words"), &tree)); err != nil {
		return err
	}
	words := bufio.NewScanner(os.Stdin)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if err := count(tree, words.Bytes()); err != nil {
			return err
		}
	}
	return errors.Join(words.Err(), print(tree), check(C.everleaf_close(db)))
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: words POOL < TEXT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
