module everleaf.example/words

go 1.21
