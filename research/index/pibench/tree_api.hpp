// The interface that PiBench (github.com/sfu-dis/pibench) calls a tree by, in our own words: the same names, types and order,
// which is what makes two compilations fit. Those who build inside of PiBench use its own file of this name.
#ifndef TREE_API_HPP
#define TREE_API_HPP

#include <cstddef>
#include <string>

// The options that the program was started with.
struct tree_options_t {
    size_t key_size = 8;
    size_t value_size = 8;
    std::string pool_path = "";
    size_t pool_size = 0;
    size_t num_threads = 1;
};

// A tree; any number of threads call it at once. Keys and values are bytes with their lengths.
class tree_api {
public:
    virtual ~tree_api() {}
    // Copies the value of a key to `value_out`; false if the key is not there.
    virtual bool find(const char *key, size_t key_size, char *value_out) = 0;
    // Adds a key; false if it is there already, and then nothing changes.
    virtual bool insert(const char *key, size_t key_size, const char *value, size_t value_size) = 0;
    // Changes the value of a key; false if the key is not there.
    virtual bool update(const char *key, size_t key_size, const char *value, size_t value_size) = 0;
    // Removes a key; false if it is not there.
    virtual bool remove(const char *key, size_t key_size) = 0;
    // Has `records_out` point to the first `count` records from a key on, in order, each a key and its value, side by side;
    // says how many there are. They are this thread's until its next scan.
    virtual int scan(const char *key, size_t key_size, int count, char *&records_out) = 0;
};

// Makes the tree. The program finds it by this name in a shared library.
extern "C" tree_api *create_tree(const tree_options_t &options);

#endif
