// Notes and an index of their words, which a crash keeps or loses together: a note and its words are one batch.
//
// The words of a note are keys "word\0number" without values: all notes with a word are the range of its prefix.
//
//     index POOL
#include <everleaf.hpp>

#include <cstdio>
#include <sstream>
#include <string>

namespace {

// A number as a key: 8 digits, so that keys are in the order of numbers.
std::string key_of(unsigned number) {
    char key[9];
    std::snprintf(key, sizeof key, "%08u", number % 100000000);
    return key;
}

class Notes {
public:
    explicit Notes(const everleaf::Db &db)
        : db_(db), notes_(db.create_tree("notes")), words_(db.create_tree("words")) {}

    void add(unsigned number, const std::string &text) {
        everleaf::Batch batch = db_.batch();
        if (const auto old = notes_.get(key_of(number))) {
            each_word(number, *old, [&](const std::string &key) { batch.erase(words_, key); });
        }
        batch.put(notes_, key_of(number), text);
        each_word(number, text, [&](const std::string &key) { batch.put(words_, key, ""); });
        batch.commit();
    }

    // Prints all notes with a word, as they are at one moment.
    void print(const std::string &word) const {
        const everleaf::Snapshot snapshot = db_.snapshot();
        const everleaf::Tree notes = snapshot.of(notes_);
        everleaf::Scan scan = snapshot.of(words_).scan(everleaf::Range::prefix(word + '\0').keys_only());
        for (const auto &[key, none] : scan) {
            static_cast<void>(none);
            const std::string number(key.substr(word.size() + 1));
            std::printf("%s: %s\n", number.c_str(), notes.get(number).value_or("?").c_str());
        }
    }

private:
    template <typename Call>
    static void each_word(unsigned number, const std::string &text, Call call) {
        std::istringstream words(text);
        for (std::string word; words >> word;) {
            call(word + '\0' + key_of(number));
        }
    }

    const everleaf::Db &db_;
    everleaf::Tree notes_;
    everleaf::Tree words_;
};

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s POOL\n", argv[0]);
        return 2;
    }
    try {
        everleaf::Db db = everleaf::Db::open(argv[1]);
        Notes notes(db);
        notes.add(1, "tea is in the tin");
        notes.add(2, "the tin is empty");
        notes.add(3, "buy tea");
        notes.add(2, "the jar is empty");
        notes.print("tea");
        notes.print("tin");
        // Everything is on disk then; the destructor could not say that it is not.
        db.close();
    } catch (const everleaf::Error &error) {
        std::fprintf(stderr, "%s: %s\n", error.code_name(), error.what());
        return 1;
    }
    return 0;
}
