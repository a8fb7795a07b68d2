package io.everleaf.demo;

/**
 * What a client asks for, as the value of a record whose key is the key that it is about: operation, number, client, the value
 * that is expected and the one that is written, with tabs between them. An empty value stands for none.
 */
record Command(Op op, String client, String id, String expected, String value) {
    enum Op {
        GET,
        PUT,
        /** Writes if the key has the value that is expected. */
        CAS
    }

    /** The topics that the applications read and write. */
    static final String COMMANDS = "commands";

    static final String REPLIES = "replies";
    static final String STORE = "kv";
    static final String APPLICATION = "everleaf-cluster";
    static final String CHANGELOG = APPLICATION + "-" + STORE + "-changelog";
    static final int PARTITIONS = 6;

    static Command parse(String text) {
        String[] fields = text.split("\t", -1);
        return new Command(Op.valueOf(fields[0]), fields[1], fields[2], fields[3], fields[4]);
    }

    @Override
    public String toString() {
        return String.join("\t", op.name(), client, id, expected, value);
    }

    /** The answer of an application: the number of the command, and what came of it. */
    record Reply(String id, String result) {
        static Reply parse(String text) {
            int at = text.indexOf('\t');
            return new Reply(text.substring(0, at), text.substring(at + 1));
        }

        @Override
        public String toString() {
            return id + "\t" + result;
        }
    }
}
