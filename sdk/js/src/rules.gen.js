// Made from pkg/secrets/rules.json by make generate. Do not edit.

// Each rule is "id prefixes parts entropy other". Prefixes that differ in a character are one, with these in brackets.
// A part is its separator, its character set, and how many characters it has. What few rules have is JSON.
export const lines = `relay-api-key rly_live_ a38 0 {"check":"relay"}
relay-test-key rly_test_ a38 0 {"check":"relay-decoy","test":true}
stripe-secret-live [sr]k_live_ a16-247 2.5
stripe-secret-test [sr]k_test_ a16-247 2.5 {"test":true}
webhook-secret whsk_,whsec_ c24-128 3
github-token gh[pousr]_ a36-251 3
github-fine-grained github_pat_ s22-244 3
gitlab-token glpat-,gl[dr]t-,glcbt-,glptt-,glft-,glsoat-,glagent-,glimt-,gloas-,glffct- g20-320 3
aws-access-key A[KS]IA b16 2.5
aws-bedrock-key ABSK c100-280 4
google-api-key AIza p35 3 {"exposure":"public"}
google-oauth-secret GOCSPX- p28 3
google-oauth-token ya29. g60-1200 3.5
google-refresh-token 1//0,1\\/\\/0,1\\\\\\/\\\\\\/0,1%2F%2F0,1%252F%252F0 p60-120 3.5
slack-token xox[bparseo]-,xoxe.xox[bp]- e10-200 2 {"need":["digit"]}
slack-app-token xapp- f1,-a9-14,-f10-16,-h64
slack-webhook hooks.slack.com a0-1,/services/n8-14,/n8-14,/a20-30
openai-key sk-proj-,sk-svcacct-,sk-admin- p48-250 0 {"contains":"T3BlbkFJ"}
openai-key-older sk- a48 0 {"contains":"T3BlbkFJ"}
anthropic-key sk-ant- p80-140 3.5
groq-key gsk_ a48-56 3.5
xai-key xai- a70-90 3.5
replicate-token r8_ a37-40 3
perplexity-key pplx- a40-56 3
openrouter-key sk-or-v1- h64 2.8
huggingface-token hf_,api_org_ a34-37 3
nvidia-key nvapi- p60-72 3.5
together-key tgp_v1_ p40-48 3.5
pinecone-key pcsk_ s60-80 3.5
langfuse-secret sk-lf- q36 2.8
langsmith-key lsv2_pt_,lsv2_sk_ h32,_h10 2.8
elevenlabs-key sk_ h48 2.8
sendgrid-key SG. p20-24,.p39-50 3.5
resend-key re_ a8-9,_a20-28 3.3 {"need":["digit"]}
brevo-key xkeysib-,xsmtpsib- h64,-a16 2.8
mailersend-token mlsn. h64 2.8
mailchimp-key -us f1-2 0 {"lead":{"charset":"hex","max":32,"min":32}}
twilio-api-key SK[0123456789abcdef] h31 2.8
npm-token npm_ a36 3
pypi-token pypi-AgE p70-1000 3.5
rubygems-key rubygems_ h48 2.8
nuget-key oy2 k43 3.3 {"need":["digit"]}
crates-token cio a32 3.5 {"need":["digit","lower","upper"]}
docker-token dckr_[po]at_ p27-36 3
digitalocean-token do[por]_v1_ h64 2.8
cloudflare-token cfk_,cf[ua]t_ a44-52 3.3
cloudflare-origin-ca v1.0- h24,-h146 2.8
azure-client-secret Q~ d31-34 3.5 {"lead":{"charset":"client","max":4,"min":4}}
alibaba-access-key LTAI a16-22 3 {"need":["digit"]}
tencent-secret-id AKID a32 3.5 {"need":["digit"]}
heroku-token HRKU- p36-64 3
fly-token fm2_ c100-1000 4
render-key rnd_ a28-36 3.3
netlify-token nfp_ a36-44 3.3
vercel-blob-token vercel_blob_rw_ s32-64 3.3
neon-key napi_ a60-72 3.5
planetscale-key pscale_tkn_,pscale_pw_,pscale_oauth_ g32-64 3.3
cockroach-key CCDB1_ a22,_a40 3.5
aiven-password AVNS_ p19-24 3
databricks-token dapi h32 2.8
clickhouse-key 4b1d a38 3.5 {"need":["upper","lower","digit"]}
supabase-secret sb_secret_ p28-48 3.3
supabase-access-token sbp_ h40 2.8
shopify-token shpat_,shpss_,shp[cp]a_ h32-38 2.8
square-token sq0csp-,sq0atp- p22-43 3
square-access-token EAAA p60 4
shippo-token shippo_live_ h40 2.8
shippo-test-token shippo_test_ h40 2.8 {"test":true}
easypost-key EZ[AT]K a54 3.5
duffel-token duffel_live_,duffel_test_ p43 3.3
flutterwave-key FLWSECK-,FLWSECK_TEST- h32,-o1 2.8
plaid-token access-production- q36 2.8
linear-key lin_api_,lin_wh_ a40-44 3.3
notion-token ntn_ a44-50 3.3
notion-token-older secret_ a43 3.5 {"need":["digit","lower","upper"]}
airtable-token pat a14,.h64 2.8
figma-token fig[do]_ p38-60 3.3
atlassian-token AT[AC]TT3 l160-250 4
bitbucket-password ATBB a32 3.5 {"need":["digit"]}
hubspot-token pat-na[12]-,pat-eu1- q36 2.8
typeform-token tfp_ g40-62 3.3
dropbox-token sl.u.,sl.B p100-1400 4
readme-key rdme_ k70 3.5
contentful-token CFPAT- p40-46 3.3
sentry-token sntryu_ h64 2.8
sentry-org-token sntrys_eyJ m80-500 4
newrelic-key NRAK-,NRII- p27-32 3
grafana-service-token glsa_ a32,_h8 3.3
grafana-cloud-token glc_ c60-500 3.5
dynatrace-token dt0[cs]01.,dt0s16. n24,.n64 3.5
posthog-key phx_ a40-52 3.5
sonar-token sq[upa]_ h40 2.8
postman-key PMAK- h24,-h34 2.8
vault-token hvs. p24-160 3.3
vault-batch-token hvb. p100-320 3.5
terraform-token .atlasv1. p60-72 3.5 {"lead":{"charset":"alnum","max":14,"min":14}}
doppler-token dp.[psc]t.,dp.sa.,dp.scim.,dp.audit. g40-90 3.3
onepassword-token ops_eyJ l200-1500 4
tailscale-key tskey-api-,tskey-auth-,tskey-client-,tskey-scim-,tskey-webhook- a10-24,-a16-40 3
pulumi-token pul- h40 2.8
circleci-token CCIPAT_,CCIPRJ_ a20-24,_h40 3
buildkite-token bkua_ h40 2.8
jfrog-key AKCp a64-80 3.5
prefect-key pn[ub]_ a36 3.3
sourcegraph-token sgp_ s40-64 3
mapbox-secret sk.eyJ p50-150,.p20-26 3.5
facebook-token EAA a90-400 4 {"need":["digit","lower","upper"]}
discord-bot-token M[Tjz][AEIMQUYcgk],N[DTjz][AEIMQUYcgk],O[DT][AEIMQUYcgk] p20-25,.p6,.p27-40 3.5 {"need":["digit"]}
discord-webhook discord.com,discordapp.com a0-1,/api/webhooks/f17-20,/p60-80
telegram-bot-token :AA,%3[Aa]AA,%253[Aa]AA p32-33 3.3 {"lead":{"charset":"digit","max":10,"min":8}}
age-key AGE-SECRET-KEY-1 n58 3
supabase-service-role eyJ p0-1024 0 {"claim":{"role":"service_role"},"kind":"jwt","left":"charset"}
private-key-block -----BEGIN,MII,MIG[2E],MIGHA,MIGk,MIH[bcu],MH[cQ],MC4,MFEC,ME[cY]C,b3BlbnNzaC1rZXktdjE p64-7680 0 {"kind":"pem","left":"any"}
private-jwk kty,crv,"[dkp]","[dkp]\\,'[dkp]' p0-6144 3.5 {"kind":"jwk","left":"any"}
database-uri postgres,postgresql,mysql,mariadb,mongodb,redis,rediss,amqp,amqps,mssql,sqlserver,clickhouse,cockroachdb p0-1 0 {"kind":"uri"}
service-uri smtp,smtps,ldap,ldaps,nats,ftp,sftp,mqtt,mqtts p0-1 0 {"kind":"uri"}
web-uri http,https p0-1 2.8 {"generic":true,"kind":"uri"}
aws-secret-key secret_access_key,aws_secret_key c40 4 {"kind":"assign","need":["digit","letter"]}
azure-storage-key account_key c86-88 4.5 {"kind":"assign"}
azure-shared-access-key shared_access_key c43-44 4 {"kind":"assign"}
twilio-auth-token twilio_auth_token,twilio_token h32 2.8 {"kind":"assign"}
datadog-key dd_api_key,datadog_api_key,dd_app_key,datadog_app_key h32-40 2.8 {"kind":"assign"}
mailgun-key mailgun_api_key,mailgun_key,mailgun_signing_key e32-50 2.8 {"kind":"assign"}
generic-secret api_key,secret,secret_key,token,password,passwd,passphrase,access_key,auth_key,private_key,signing_key,encryption_key,master_key,service_key r16-150 3.5 {"except":["csrf","xsrf","page","next","previous","pagination","continuation","sync","cancel","cancellation","design","lock","fencing","public","request"],"generic":true,"kind":"assign","need":["digit","letter"]}`

// Ranges of characters, two a range. A part has the first set as a, the second as b.
export const charsets = {
  alnum: "09AZaz",
  base32: "27AZ",
  base64: "++/9==AZaz",
  client: "-.09AZ__az~~",
  dash: "--09AZaz",
  digit: "09",
  dotted: "-.09AZ__az",
  hex: "09AFaf",
  letter: "AZaz",
  lower: "az",
  lownum: "09az",
  padded: "--09==AZ__az",
  token68: "++-9==AZ__az~~",
  upnum: "09AZ",
  upper: "AZ",
  urlsafe: "--09AZ__az",
  uuid: "--09AFaf",
  value: "!!#$++-9==AZ^_az~~",
  word: "09AZ__az",
}

export const stop = ["example","changeme","your_api_key","your-api-key","yourapikey","xxxxxx","0000000000","1234567890","0123456789","abcdefghij","placeholder","redacted","dummy","not_a_real","notreal","insert_","mysecret","supersecret"]

export const known = ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","C2FVsBQIhrscChlQIMV+b5sSYspob7oD","password","passw0rd","password1","postgres","secret","mypassword","guitar","redis","mysql","mongodb","admin123","pa55word","hunter2","s3cret","secret1","pass1234","password123"]

export const suffixes = ["base","dev","live","main","primary","prod","production","secondary","staging","test"]
