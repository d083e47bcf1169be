// Loaded into a program before the C library: a system that starts no more threads.
#include <pthread.h>

#include <cerrno>

extern "C" int pthread_create(pthread_t* /*thread*/, const pthread_attr_t* /*attributes*/, void* (* /*start*/)(void*),
                              void* /*argument*/) noexcept {
  return EAGAIN;
}
