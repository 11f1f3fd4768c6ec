#include "cluster/record/record.hpp"
