package io.everleaf.demo;

import java.util.HashMap;
import java.util.Map;

/** The arguments of a program: {@code name=value} each. */
final class Arguments {
    private final Map<String, String> values = new HashMap<>();

    Arguments(String[] arguments) {
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            if (at < 1) {
                throw new IllegalArgumentException("not NAME=VALUE: " + argument);
            }
            values.put(argument.substring(0, at), argument.substring(at + 1));
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("the argument " + name + "=… is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        String value = values.get(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }
}
