/* Compile what follows for other instructions than the rest of the program. */
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define TARGET_BEGIN(features)                                                                   \
    PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define TARGET_END PRAGMA(clang attribute pop)
#else
#define TARGET_BEGIN(features) PRAGMA(GCC push_options) PRAGMA(GCC target(features))
#define TARGET_END PRAGMA(GCC pop_options)
#endif
