open Sapwood

external spawn : string array -> Unix.file_descr -> Unix.file_descr -> int = "sapwood_spawn"
external receive : Unix.file_descr -> int * int = "sapwood_receive"
external probe : Unix.file_descr -> unit = "sapwood_probe"
external descriptor_of : int -> Unix.file_descr = "%identity"

let failed form = Printf.ksprintf (fun text -> raise (Errors.Channel_failed text)) form
let wait = 60.
let opening = 40.
let connecting = 3.
let accepted = Char.code '+'
let most_said = 64 * 1024
let program () = Option.value (Sys.getenv_opt "SAPWOOD_CHANNEL") ~default:"sapwood-channel"

(* --- sockets *)

let close line = try Unix.close line with Unix.Unix_error _ -> ()

(* The system sends a reset: an end would look as if all had come. *)
let drop line =
  (try Unix.setsockopt_optint line SO_LINGER (Some 0) with Unix.Unix_error _ -> ());
  close line

let closing line act = Fun.protect act ~finally:(fun () -> close line)

(* A [SO_RCVTIMEO] of 0 is none. *)
let within line seconds =
  Unix.setsockopt_float line SO_RCVTIMEO seconds;
  Unix.setsockopt_float line SO_SNDTIMEO seconds

let rec again act = try act () with Unix.Unix_error (EINTR, _, _) -> again act
let left until most = Float.max 0.001 (Float.min most (until -. Unix.gettimeofday ()))

let say line text =
  let rec go from =
    if from < String.length text then
      go (from + again (fun () -> Unix.write_substring line text from (String.length text - from)))
  in
  go 0

(* Two connected TCP sockets of this machine, which nobody else has. *)
let pair () =
  let listener = Unix.socket ~cloexec:true PF_INET SOCK_STREAM 0 in
  closing listener (fun () ->
      Unix.bind listener (ADDR_INET (Unix.inet_addr_loopback, 0));
      Unix.listen listener 8;
      let near = Unix.socket ~cloexec:true PF_INET SOCK_STREAM 0 in
      let rec mine () =
        let far, from = again (fun () -> Unix.accept ~cloexec:true listener) in
        if from = Unix.getsockname near then far
        else begin
          close far;
          mine ()
        end
      in
      match
        Unix.connect near (Unix.getsockname listener);
        mine ()
      with
      | far ->
          List.iter (fun each -> Unix.setsockopt each TCP_NODELAY true) [ near; far ];
          (near, far)
      | exception error ->
          close near;
          raise error)

(* --- the process beside *)

(* The one line that it says. *)
let line talk seconds =
  let until = Unix.gettimeofday () +. seconds and buffer = Bytes.create 4096 and said = Buffer.create 256 in
  let rec go () =
    within talk (left until seconds);
    match again (fun () -> Unix.read talk buffer 0 (Bytes.length buffer)) with
    | exception Unix.Unix_error ((EAGAIN | EWOULDBLOCK), _, _) -> failed "no answer within %g s" seconds
    | 0 -> failed "the process beside this one ended"
    | size ->
        Buffer.add_subbytes said buffer 0 size;
        if Buffer.length said > most_said then failed "the process beside this one says too much";
        if Bytes.get buffer (size - 1) = '\n' then Buffer.contents said else go ()
  in
  go ()

let answer deed asked far seconds =
  let talk, theirs = Unix.socketpair ~cloexec:true PF_UNIX SOCK_STREAM 0 in
  closing talk (fun () ->
      let pid =
        closing theirs (fun () ->
            try spawn [| program (); deed; "3" |] theirs far
            with Unix.Unix_error (error, _, _) ->
              failed "%s does not start: %s; install the library for Python, or say in SAPWOOD_CHANNEL where it is"
                (program ()) (Unix.error_message error))
      in
      (* It goes on in a child of its own, and this one ends at once. *)
      let ended () =
        try
          Unix.shutdown talk SHUTDOWN_ALL;
          ignore (again (fun () -> Unix.waitpid [] pid))
        with Unix.Unix_error _ -> ()
      in
      Fun.protect ~finally:ended (fun () ->
          match
            say talk (Json.to_string (`Assoc asked) ^ "\n");
            line talk seconds
          with
          | said -> Read.obj (Json.of_string said)
          | exception Unix.Unix_error (error, _, _) ->
              failed "the process beside this one ended: %s" (Unix.error_message error)))

(* This application's end, and what the process says when it is ready. *)
let beside deed asked seconds =
  let near, far =
    try pair ()
    with Unix.Unix_error (error, _, _) -> failed "there are no sockets: %s" (Unix.error_message error)
  in
  match closing far (fun () -> answer deed asked far seconds) with
  | said -> (
      match Json.find said "error" with
      | None -> (near, said)
      | Some wrong ->
          drop near;
          failed "%s" (match wrong with `String text -> text | _ -> Json.to_string wrong))
  | exception error -> (
      drop near;
      match error with
      | Json.Wrong said -> failed "the process beside this one is not understood: %s" said
      | error -> raise error)

let make ?(wait = wait) (place : Place.t) =
  let near, said = beside "make" [ ("place", Place.to_json place); ("wait", `Float wait) ] opening in
  match Channel.of_json (`Assoc said) with
  | given -> (near, given)
  | exception Json.Wrong said ->
      drop near;
      failed "the process beside this one is not understood: %s" said

(* --- the ways *)

let refused = "it was taken already, or the secret is another one"

let connected family address seconds =
  let line = Unix.socket ~cloexec:true family SOCK_STREAM 0 in
  try
    within line seconds;
    Unix.connect line address;
    line
  with error ->
    close line;
    raise error

(* A link would lead to another program. *)
let check_mine path =
  let is kind place =
    let found = Unix.lstat place in
    found.st_kind = kind && found.st_uid = Unix.geteuid ()
  in
  if not (is S_DIR (Filename.dirname path) && is S_SOCK path) then failed "it is no socket of this user"

(* The descriptor itself is handed over: nothing stands between the two applications. *)
let by_unix path secret until =
  check_mine path;
  let line = connected PF_UNIX (ADDR_UNIX path) (left until connecting) in
  closing line (fun () ->
      say line (secret ^ "\n");
      match again (fun () -> receive line) with
      | said, number when said = accepted && number >= 0 ->
          let found = descriptor_of number in
          (* Its maker hears of a reset until it is here. *)
          (try Unix.setsockopt_optint found SO_LINGER None with Unix.Unix_error _ -> ());
          Unix.clear_nonblock found;
          found
      | _, number ->
          if number >= 0 then drop (descriptor_of number);
          failed "%s" refused)

let by_tcp host port secret until =
  let family = Unix.domain_of_sockaddr (ADDR_INET (host, port)) in
  let line = connected family (ADDR_INET (host, port)) (left until connecting) in
  try
    Unix.setsockopt line TCP_NODELAY true;
    say line (secret ^ "\n");
    let byte = Bytes.create 1 in
    if again (fun () -> Unix.read line byte 0 1) <> 1 || Bytes.get_uint8 byte 0 <> accepted then failed "%s" refused;
    within line 0.;
    probe line;
    line
  with error ->
    (* The channel may be this one's by now: nobody takes that for its end. *)
    drop line;
    raise error

let through_the_tree place node name secret until =
  let text each = `String each in
  let asked = [ ("node", text node); ("name", text name); ("secret", text secret) ] in
  fst (beside "take" (("place", Place.to_json place) :: asked) (left until opening))

let by place secret until = function
  | Channel.At_socket path -> by_unix path secret until
  | At_address (host, port) -> by_tcp host port secret until
  | At_node (node, name) -> through_the_tree place node name secret until

let said = function
  | Errors.Channel_failed text -> text
  | Unix.Unix_error ((EAGAIN | EWOULDBLOCK | EINPROGRESS), _, _) -> "no answer in time"
  | Unix.Unix_error (error, _, _) -> Unix.error_message error
  | error -> raise error

let take ?(ways = Channel.ways) ?(timeout = opening) place (given : Channel.t) =
  let until = Unix.gettimeofday () +. timeout in
  let known url = Option.map (fun place -> (Channel.way place, url, place)) (Channel.place url) in
  let wanted = List.filter (fun (way, _, _) -> List.mem way ways) (List.filter_map known given.urls) in
  let rec first failures = function
    | [] ->
        let tried = String.concat ", " (List.map Channel.name ways) in
        failed "%s"
          (if failures <> [] then String.concat "; " (List.rev failures)
          else Printf.sprintf "no way is known to %s: %s are tried here" (String.concat ", " given.urls) tried)
    | (way, url, at) :: rest -> (
        match by place given.secret until at with
        | line -> (line, way)
        | exception error -> first (Printf.sprintf "%s: %s" url (said error) :: failures) rest)
  in
  first [] (List.stable_sort (fun (one, _, _) (two, _, _) -> compare one two) wanted)
