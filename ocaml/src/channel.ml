type way = Unix | Tcp | Tree
type t = { urls : string list; secret : string }

let ways = [ Unix; Tcp; Tree ]
let name = function Unix -> "unix" | Tcp -> "tcp" | Tree -> "tree"
let most = 16
let longest = 200
let secret_size = 43

(* --- forms *)

let is_letter = function 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' -> true | _ -> false
let is_digit = function '0' .. '9' -> true | _ -> false
let is_hex = function '0' .. '9' | 'a' .. 'f' -> true | _ -> false
let also more each = is_letter each || String.contains more each
let all good low high text = String.length text >= low && String.length text <= high && String.for_all good text

let after prefix text =
  let size = String.length prefix in
  if String.length text >= size && String.sub text 0 size = prefix then
    Some (String.sub text size (String.length text - size))
  else None

let folder = "sapwood-channel-"

let unix_place path =
  match List.rev (String.split_on_char '/' path) with
  | "socket" :: last :: above -> (
      let above = String.concat "/" (List.rev above) in
      match (after "/" above, after folder last) with
      | Some above, Some rest when all (also "._/-") 0 60 above && all (also "_") 4 16 rest -> Some path
      | _ -> None)
  | _ -> None

(* A name would be looked up, however long that takes. *)
let address host =
  match Unix.inet_addr_of_string host with
  | found when found = Unix.inet_addr_any || found = Unix.inet6_addr_any -> None
  | found when String.contains host ':' || Unix.string_of_inet_addr found = host -> Some found
  | _ | (exception Failure _) -> None

let is_v6 each = is_hex each || each = ':' || each = '.'
let is_v4 each = is_digit each || each = '.'

let tcp_place text =
  match String.rindex_opt text ':' with
  | None -> None
  | Some place -> (
      let host = String.sub text 0 place in
      let port = String.sub text (place + 1) (String.length text - place - 1) in
      let size = String.length host in
      let found =
        if size > 2 && host.[0] = '[' && host.[size - 1] = ']' then
          let inner = String.sub host 1 (size - 2) in
          if all is_v6 2 45 inner then address inner else None
        else if all is_v4 7 15 host then address host
        else None
      in
      match found with
      | Some found when all is_digit 1 5 port && port.[0] <> '0' && int_of_string port <= 65535 ->
          Some (found, int_of_string port)
      | _ -> None)

let tree_place text =
  match String.split_on_char '/' text with
  | [ node; called ] when all (also "._-") 1 64 node -> (
      match after "channel-" called with Some number when all is_hex 32 32 number -> Some (node, called) | _ -> None)
  | _ -> None

type place = At_socket of string | At_address of Unix.inet_addr * int | At_node of string * string

let way = function At_socket _ -> Unix | At_address _ -> Tcp | At_node _ -> Tree

let place url =
  let ( let* ) = Option.bind in
  match (after "unix:" url, after "tcp://" url, after "sapwood://" url) with
  | Some rest, _, _ ->
      let* path = unix_place rest in
      Some (At_socket path)
  | _, Some rest, _ ->
      let* host, port = tcp_place rest in
      Some (At_address (host, port))
  | _, _, Some rest ->
      let* node, called = tree_place rest in
      Some (At_node (node, called))
  | None, None, None -> None

(* --- in a message *)

let check each =
  let count = List.length each.urls in
  if count < 1 || count > most then Json.wrong "urls: expected 1 to %d, got %d" most count;
  if List.exists (fun url -> String.length url > longest) each.urls then
    Json.wrong "urls: expected %d characters at most" longest;
  if not (all (also "_-") secret_size secret_size each.secret) then
    Json.wrong "secret: expected %d letters, digits, _ and -" secret_size;
  each

let to_json each : Json.t =
  let { urls; secret } = check each in
  `Assoc [ ("urls", `List (List.map Write.string urls)); ("secret", `String secret) ]

let of_json json =
  let fields = Read.obj json in
  check
    { urls = Read.field fields "urls" (Read.array Read.string); secret = Read.field fields "secret" Read.string }

let sample = { urls = [ "sapwood://nowhere/channel-" ^ String.make 32 '0' ]; secret = String.make secret_size 'A' }
let to_string each = Json.to_string (to_json each)
let of_string payload = of_json (Json.of_string payload)
