// A cache with a few rows in each table, and what reads them.
#pragma once

#include <string>

#include "cache/cache.h"

namespace sparsmith::fuzz {

// The file of the sample, as bytes.
const std::string& cache_sample();

// A folder in memory where the system has one: a database that is made anew for each input.
std::string file_in_memory(const char* name);

// Removes the database and the files that SQLite keeps beside it.
void remove_database(const std::string& path);

// Asks everything of the cache that a search asks, and makes a hint of the measurements. Ends the program where a row
// comes back that no search can have written.
void read_all(Cache& cache);

}  // namespace sparsmith::fuzz
