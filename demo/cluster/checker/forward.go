package main

import (
	"io"
	"net"
	"os"
)

// forward passes connections on: each argument is FROM=TO, two addresses. It never ends by itself.
func forward(pairs [][2]string) error {
	failed := make(chan error)
	for _, pair := range pairs {
		listener, err := net.Listen("tcp", pair[0])
		if err != nil {
			return err
		}
		go func() {
			for {
				in, err := listener.Accept()
				if err != nil {
					failed <- err
					return
				}
				go pass(in, pair[1])
			}
		}()
	}
	return <-failed
}

func pass(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		io.WriteString(in, "HTTP/1.0 502 Bad Gateway\r\n\r\n"+err.Error()+"\n")
		return
	}
	defer out.Close()
	go func() {
		io.Copy(out, in)
		if half, ok := out.(*net.TCPConn); ok {
			half.CloseWrite()
		}
	}()
	if _, err := io.Copy(in, out); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
	}
}
