#include "cluster/record/record_table.hpp"
