/* A PAM module that asks for a verification code and compares it with /etc/verification-code.
 * The prototypes are written out so that no development package of PAM is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAM_SUCCESS 0
#define PAM_AUTH_ERR 7
#define PAM_PROMPT_ECHO_ON 2

typedef struct pam_handle pam_handle_t;
extern int pam_prompt(pam_handle_t *pamh, int style, char **response, const char *format, ...);

int pam_sm_authenticate(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    char expected[64] = "";
    char *answer = NULL;
    int result = PAM_AUTH_ERR;
    FILE *file = fopen("/etc/verification-code", "r");
    (void)flags; (void)argc; (void)argv;

    if (file) {
        if (fgets(expected, sizeof expected, file))
            expected[strcspn(expected, "\n")] = '\0';
        fclose(file);
    }
    if (pam_prompt(pamh, PAM_PROMPT_ECHO_ON, &answer, "Verification code: ") == PAM_SUCCESS && answer) {
        if (expected[0] && strcmp(answer, expected) == 0)
            result = PAM_SUCCESS;
        memset(answer, 0, strlen(answer));
        free(answer);
    }
    return result;
}

int pam_sm_setcred(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
    (void)pamh; (void)flags; (void)argc; (void)argv;
    return PAM_SUCCESS;
}
